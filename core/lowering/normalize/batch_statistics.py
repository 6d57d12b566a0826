"""Batch normalization with the statistics of each batch, as a graph is trained.

The graph of a file normalizes with running statistics, which is what validation, prediction and
exports do. A step of training normalizes with those of its batch, and then moves the running ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from odt.core.model.graph import LoweredGraph, Node
from odt.dataclass import dataclass

BATCH_NORM = "CUSTOM:BatchNormalization"
MEAN, VARIANCE = 3, 4  # positions of the running statistics among its inputs


@dataclass(frozen=True, slots=True)
class RunningStatistics:
    """The running statistics of a batch normalization, and the values that move them.

    Attributes:
        mean, variance: tensors of the running statistics.
        momentum, epsilon: of the node.
        center, inv: values of the plan: mean of the batch, and 1 / √(variance + ε).
    """

    mean: int
    variance: int
    momentum: float
    epsilon: float
    center: str
    inv: str


def with_batch_statistics(graph: LoweredGraph) -> LoweredGraph:
    """Returns the graph that normalizes with the statistics of its batch."""
    if not any(node.op == BATCH_NORM for node in graph.nodes):
        return graph
    nodes = (
        replace(node, attrs=replace(node.attrs, batch=True)) if node.op == BATCH_NORM else node
        for node in graph.nodes
    )
    return replace(graph, nodes=tuple(nodes))


def centered_tensors(graph: LoweredGraph, nodes: Sequence[Node]) -> set[int]:
    """Returns the tensors that only normalizations with statistics of the batch read.

    They subtract the mean of each channel, so that a constant for each channel changes nothing, and
    has the gradient 0. A computed gradient would consist of rounding errors, from which Adam makes
    steps of full size.

    Args:
        graph: the graph.
        nodes: nodes that a plan computes, in forward order.
    """
    centered: set[int] = set()
    others: set[int] = set()
    for node in reversed(nodes):
        x, *rest = node.inputs
        y = node.outputs[0]
        is_view = node.op == "RESHAPE" and y in centered - others
        if is_view:  # it must have the same channels
            shape, shape_of_view = (graph.tensors[i].spec.shape for i in (x, y))
            is_view = shape[-1:] == shape_of_view[-1:]
        if is_view or (node.op == BATCH_NORM and node.attrs.batch):
            centered.add(x)
            others.update(rest)
        else:
            others.update(node.inputs)
    return centered - others


def running_statistics(nodes: Sequence[Node]) -> Iterator[tuple[Node, tuple[int, int]]]:
    """Yields the nodes that normalize with statistics of a batch, with mean and variance."""
    for node in nodes:
        if node.op == BATCH_NORM and node.attrs.batch:
            yield node, (node.inputs[MEAN], node.inputs[VARIANCE])
