"""Finds the constants of a graph that train."""

from collections.abc import Collection, Iterator

from odt.core.lowering.binding import bind_inputs, gradient_of, row_of
from odt.core.model.graph import Graph


def held_constants(graph: Graph) -> dict[int, str]:
    """Returns the constants that would train if a user named them → why they do not by themselves.

    Args:
        graph: lowered.
    """
    constants = (i for _, i in trainable_by_operator(graph, only=range(len(graph.tensors))))
    reasons = {i: graph.tensors[i].constant_reason for i in constants}
    return {i: reason for i, reason in reasons.items() if reason}


def trainable_tensors(
    graph: Graph, trainable: Collection[int], only: Collection[int] | None = None
) -> tuple[int, ...]:
    """Returns the constants that train: float inputs with a gradient, of trainable operators.

    Args:
        graph: as in the file, or lowered.
        trainable: positions of the operators in the file.
        only: tensors to choose from; None for all that are not held constant.
    """
    return tuple(dict.fromkeys(i for _, i in trainable_by_operator(graph, trainable, only)))


def trainable_by_operator(
    graph: Graph, trainable: Collection[int] | None = None, only: Collection[int] | None = None
) -> Iterator[tuple[int, int]]:
    """Yields pairs (position of an operator, constant that it trains), in the order of the nodes.

    Args:
        graph: as in the file, or lowered.
        trainable: positions of the operators in the file; None for all.
        only: tensors to choose from; None for all that are not held constant.
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
                and (i in only if only is not None else not tensor.constant_reason)
            ):
                yield node.origin, i
