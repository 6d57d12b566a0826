"""Checks of a quantized file's operators, on which its graphs of numbers and integers rely.

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

MAX_FAULTS = 4  # in one message


def check_operators(model: Model) -> None:
    """Checks numbers of tensors, their types and their quantization.

    Raises:
        ModelError: if operators break a rule; names them.
    """
    faults = list(islice(_faults(model), MAX_FAULTS + 1))
    if len(faults) > MAX_FAULTS:
        faults[MAX_FAULTS:] = ["and more"]
    if faults:
        raise ModelError(f"{model.path}: {'; '.join(faults)}.")
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
                actual = str(dtype) if y in model.quantization else f"{dtype} without"
                yield f"{where}: {graph.label(y)} must be integers with a scale, but got {actual}"
