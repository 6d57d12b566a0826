"""Checks of a quantized file's operators that all lowering to real numbers or integers trusts.

Operators of float files are checked when shapes are inferred (core/lowering/infer.py); the graphs
of quantized files are built before that.
"""

from collections.abc import Iterator
from itertools import islice

from odt.core.lowering.binding import bind_operands, bind_outputs
from odt.core.model.model import Model
from odt.core.model.quantization_rules import check_quantization
from odt.errors import ModelError, ShapeError
from odt.kernels.registry import find_operator

SHOWN = 4  # faults in one message


def check_operators(model: Model) -> None:
    """Checks numbers of tensors, their types and their quantization.

    Raises:
        ModelError: names the operators that break a rule.
    """
    faults = list(islice(_faults(model), SHOWN + 1))
    if faults:
        ending = "; and more" * (len(faults) > SHOWN)
        raise ModelError(f"{model.path}: {'; '.join(faults[:SHOWN])}{ending}.")
    check_quantization(model)


def _faults(model: Model) -> Iterator[str]:
    """Yields rules that operators break."""
    graph = model.graph
    for node in graph.nodes:
        where = f"node {node.origin} ({node.op})"
        row = find_operator(node.op)
        try:
            if row is not None:
                bind_operands(row, node)
                bind_outputs(row, node)
        except ShapeError as e:
            yield f"{where}: {e}"
        if node.op == "QUANTIZE":
            (y,) = node.outputs
            dtype = graph.tensors[y].spec.dtype
            if y not in model.quantization or dtype.kind not in "iu":
                yield (
                    f"{where}: {graph.label(y)} must be integers with a scale, "
                    f"but got {dtype}{'' if y in model.quantization else ' without'}"
                )
