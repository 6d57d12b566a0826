"""Constants of decoders: anchors, grids of cells and factors behind the last weights.

A detector squashes the outputs of its last layer, and then computes boxes from parts of them with
constants for each anchor or cell. No layer with weights follows. Some detectors take the mean of a
distribution over distances, as a convolution of a SOFTMAX with the numbers 0, 1, 2, …
"""

from collections.abc import Iterator

import numpy as np

from odt.core.lowering.constants.view import BINARY, CUTS, JOINS, SHIFTS, VIEWS, View
from odt.core.model.graph import ABSENT, Node

DECODER = "decoder: anchors, grid or factors behind the last weights"
SQUASHING = ("LOGISTIC", "TANH", "SOFTMAX", "EXP", "RELU_0_TO_1", "RELU_N1_TO_1")
KEEPING = (*VIEWS, *JOINS, "SQUARE", "NEG", "EXP", "CONCATENATION")
MIN_STEPS = 3  # steps between numbers in order
EQUAL = 1e-2  # relative difference of steps that are equal, since files may hold float16
NORMALIZING = ("MEAN", "SUM", "RSQRT", "SQRT", "L2_NORMALIZATION")


def decoders(view: View) -> Iterator[tuple[int, str]]:
    """Yields the constants of decoders, with the reason."""
    ends = _Ends(view)
    for node in view.nodes:
        ends.add(node)
        for i in ends.constants(node):
            if view.is_weight(i):
                yield i, DECODER


class _Ends:
    """Sets of the tensors before and behind layers with weights, filled node by node in order.

    Attributes:
        means: ids of convolutions that are means of distributions.
        before: tensors on which a layer with weights depends.
        behind: tensors that depend on one.
        squashed: those of them whose values a function has squashed since.
        cut: those that are parts of other tensors.
        normalized: those that depend on a mean or a root of others.
    """

    def __init__(self, view: View) -> None:
        self.view, self.means = view, _means(view)
        self.before = _before_weights(view, self.means)
        self.behind: set[int] = set()
        self.squashed: set[int] = set()
        self.cut: set[int] = set()
        self.normalized: set[int] = set()

    def add(self, node: Node) -> None:
        """Adds the outputs of a node to the sets that they belong to."""
        view, mean = self.view, id(node) in self.means
        inputs = view.dependent.intersection(node.inputs)
        if view.has_weights(node) and not mean:
            self.behind.update(node.outputs)
        elif not self.behind.isdisjoint(inputs):
            keeps = _keeps(view, node)
            sets = [self.behind]
            if node.op in SQUASHING or mean or (keeps and self.squashed.issuperset(inputs)):
                sets.append(self.squashed)
            if node.op in NORMALIZING or not self.normalized.isdisjoint(inputs):
                sets.append(self.normalized)
            if node.op in CUTS or (keeps and not self.cut.isdisjoint(inputs)):
                sets.append(self.cut)
            for tensors in sets:
                tensors.update(node.outputs)

    def constants(self, node: Node) -> list[int]:
        """Returns the constants of a node that decode results of the last layer."""
        view = self.view
        if self.behind.isdisjoint(node.outputs) or not self.before.isdisjoint(node.outputs):
            return []
        if id(node) in self.means:
            constants = (view.source(i) for i in node.inputs if i != ABSENT)
            return [i for i in constants if view.is_real(i)]
        operand = view.operand(node)
        if operand is None or operand[0] not in self.behind:
            return []
        x, c = operand
        axes = view.axes(c)
        by_channel = axes in ([], [0])
        if x in self.squashed:
            decodes = not by_channel or x in self.cut
        else:
            by_position = len(axes) > 1 or (not by_channel and x in self.cut)
            decodes = by_position and x not in self.normalized
        return [c] if decodes else []


def _means(view: View) -> set[int]:
    """Returns the ids of convolutions of a SOFTMAX with numbers in order, which are no weights."""
    means = set[int]()
    for node in view.nodes:
        layer = view.layer(node)
        if layer is None or view.maker(node.inputs[layer.x]) != "SOFTMAX":
            continue
        steps = np.diff(view.values(view.source(node.inputs[layer.w])).reshape(-1))
        bias = view.bias(node)
        if len(steps) < MIN_STEPS or (bias != ABSENT and not view.is_zero(bias)):
            continue
        if steps[0] and np.ptp(steps) <= EQUAL * abs(steps[0]):
            means.add(id(node))
    return means


def _before_weights(view: View, means: set[int]) -> set[int]:
    """Returns the tensors on which a layer with weights depends; `means` are no such layers."""
    before = set[int]()
    for node in reversed(view.nodes):
        layer = view.has_weights(node) and id(node) not in means
        if layer or not before.isdisjoint(node.outputs):
            before.update(node.inputs)
    return before


def _keeps(view: View, node: Node) -> bool:
    """Whether the results of a node are its inputs, in another order or by constant formulas."""
    if node.op in BINARY:
        same = len({*node.inputs}) == 1 or node.op in SHIFTS
        return same or view.operand(node) is not None
    return node.op in KEEPING
