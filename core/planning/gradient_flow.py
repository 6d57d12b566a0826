"""Where gradients flow in a graph: which tensors need one, and which nodes propagate it."""

from collections.abc import Collection, Sequence

from odt.core.lowering.binding import bind_inputs, gradient_of, row_of
from odt.core.model.graph import LoweredGraph, Node


class GradientFlow:
    """How gradients flow through the nodes that a plan computes.

    Attributes:
        needs_gradient: parameters, and tensors that depend on them through operators with a
            gradient.
    """

    def __init__(
        self, graph: LoweredGraph, nodes: Sequence[Node], parameters: Collection[int]
    ) -> None:
        """Finds the tensors that need a gradient.

        Args:
            graph: graph of the nodes.
            nodes: the nodes that the plan computes, in forward order.
            parameters: tensors that train.
        """
        self.needs_gradient = set(parameters)
        self._nodes = nodes
        self._parameters = parameters
        self._differentiable = {n.outputs: _differentiable_inputs(n) for n in nodes}
        for node in nodes:
            if not self.needs_gradient.isdisjoint(self._differentiable[node.outputs].values()):
                self.needs_gradient.update(
                    i for i in node.outputs if graph.tensors[i].spec.has_gradient
                )

    def with_backward(self, losses: Collection[int]) -> list[Node]:
        """Returns the nodes that propagate a needed gradient, in forward order.

        Args:
            losses: tensors of which the losses compute the gradient.
        """
        with_gradient = set(losses)
        reached = []
        for node in reversed(self._nodes):
            if not with_gradient.isdisjoint(node.outputs):
                passed = self.passed(node).values()
                if passed:
                    reached.append(node)
                    with_gradient.update(passed)
        return reached[::-1]

    def passed(self, node: Node) -> dict[str, int]:
        """Returns the inputs of a node that need a gradient, by name in the row."""
        inputs = self._differentiable[node.outputs]
        return {name: i for name, i in inputs.items() if i in self.needs_gradient}

    def deliveries(self, reached: Sequence[Node]) -> dict[tuple[int, ...], list[int]]:
        """Returns the outputs of each node with a backward → the parameters delivered after it.

        No earlier node reads these parameters. This includes nodes without a gradient, because
        their results may be recomputed for a later node.

        Args:
            reached: the nodes with a backward.
        """
        delivered: dict[tuple[int, ...], list[int]] = {}
        with_backward = {node.outputs for node in reached}
        seen: set[int] = set()
        waiting: list[int] = []
        for node in self._nodes:
            read = dict.fromkeys(node.inputs)
            waiting += [i for i in read if i in self._parameters and i not in seen]
            seen.update(waiting)
            if node.outputs in with_backward:
                delivered[node.outputs] = waiting
                waiting = []
        return delivered


def _differentiable_inputs(node: Node) -> dict[str, int]:
    row = row_of(node.op)
    return {name: i for name, i in bind_inputs(row, node).items() if gradient_of(row, name)}
