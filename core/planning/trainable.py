"""Finds the constants of a graph that train."""

from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase

from odt.core.lowering.binding import bind_inputs, gradient_of, row_of
from odt.core.model.graph import Graph, Tensor

# Names that tico gives to constants that are not parameters: initial states of recurrent modules.
CONVERTED = ("const_tensor_*", "*.rnn.*_prop_tensor_*")
NORMALIZATION = "normalization/*"  # constants of the data, of the layers that odt new makes


def is_formula_constant(tensor: Tensor) -> bool:
    """Whether a constant belongs to a formula: a scalar such as ε, or by its name."""
    names = (*CONVERTED, NORMALIZATION)
    return not tensor.spec.shape or any(fnmatchcase(tensor.name, p) for p in names)


def trainable_tensors(
    graph: Graph, trainable: Collection[int], only: Collection[int] | None = None
) -> tuple[int, ...]:
    """Returns the constants that train: float inputs with a gradient, of trainable operators.

    Args:
        graph: as in the file, or lowered.
        trainable: positions of the operators in the file.
        only: tensors to choose from; None for all except those that belong to a formula.
    """
    return tuple(dict.fromkeys(i for _, i in trainable_by_operator(graph, trainable, only)))


def trainable_by_operator(
    graph: Graph, trainable: Collection[int] | None = None, only: Collection[int] | None = None
) -> Iterator[tuple[int, int]]:
    """Yields pairs (position of an operator, constant that it trains), in the order of the nodes.

    Args:
        graph: as in the file, or lowered.
        trainable: positions of the operators in the file; None for all.
        only: tensors to choose from; None for all except those that belong to a formula.
    """
    for node in graph.nodes:
        if trainable is not None and node.origin not in trainable:
            continue
        row = row_of(node.op)
        for name, i in bind_inputs(row, node).items():
            tensor = graph.tensors[i]
            if (
                tensor.data is not None
                and not (tensor.variable or tensor.formula)
                and tensor.spec.dtype.kind == "f"
                and gradient_of(row, name)
                and (not is_formula_constant(tensor) if only is None else i in only)
            ):
                yield node.origin, i
