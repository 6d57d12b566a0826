"""Finds the constants of a graph that train."""

from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase

from odt.core.lowering.binding import bind_inputs, gradient_of, row_of
from odt.core.model.graph import Graph, Tensor
from odt.kernels.opdef import Array

# Names that tico gives to constants that are not parameters: initial states of recurrent modules.
CONVERTED = ("const_tensor_*", "*.rnn.*_prop_tensor_*")
NORMALIZATION = "normalization/*"  # constants of the data, of the layers that odt new makes
MASKED_BY = ("ADD", "SUB")
HIDES = 1e3  # the softmax of a score that is smaller by so much is 0


def is_formula_constant(op: str, tensor: Tensor) -> bool:
    """Whether a constant of an operator belongs to a formula: a scalar, or by its name.

    So does the mask of an attention, which is added to scores.
    """
    names = (*CONVERTED, NORMALIZATION)
    named = not tensor.spec.shape or any(fnmatchcase(tensor.name, p) for p in names)
    return named or (op in MASKED_BY and _is_mask(tensor.data))


def _is_mask(values: Array | None) -> bool:
    """Whether values are zeros, and a number that leaves nothing of a score."""
    if values is None or not values.size:
        return False
    hides = values != 0
    value = values.flat[hides.argmax()]
    return bool(abs(value) >= HIDES and not hides.all() and (values[hides] == value).all())


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
    epsilons = graph.epsilons() if only is None else ()
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
                and (i in only if only is not None else not is_formula_constant(node.op, tensor))
                and i not in epsilons
            ):
                yield node.origin, i
