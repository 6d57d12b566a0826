"""Constants of decoders: anchors, grids of cells and factors behind the last weights.

A detector squashes the outputs of its last layer, and then computes boxes from parts of them with
constants for each anchor or cell. No layer with weights follows. Some detectors take the mean of a
distribution over distances, as a convolution or a product of a SOFTMAX with the numbers 0, 1, 2, …
Factors such as strides and 1 / size follow. litert-torch joins the grid from vectors, and writes
the SOFTMAX of four axes as exp(x) / sum(exp(x)).
"""

from collections.abc import Iterator

import numpy as np

from odt.core.lowering.constants.view import BINARY, CUTS, JOINS, SHIFTS, VIEWS, View
from odt.core.model.graph import ABSENT, Node

DECODER = "decoder: anchors, grid or factors behind the last weights"
SQUASHING = ("LOGISTIC", "TANH", "SOFTMAX", "EXP", "RELU_0_TO_1", "RELU_N1_TO_1")
KEEPING = (*VIEWS, *JOINS, "SQUARE", "NEG", "EXP")
MIN_STEPS = 3  # steps between numbers in order
EQUAL = 1e-2  # relative difference of steps that are equal, since files may hold float16
EXACT = 1 + 1e-3  # integers differ by one at most if rounding alone makes steps differ
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
        decoded: those that constants of a decoder have changed.
        normalized: those that depend on a mean or a root of others.
    """

    def __init__(self, view: View) -> None:
        self.view, self.means = view, _means(view)
        self.before = _before_weights(view, self.means)
        self.behind: set[int] = set()
        self.squashed: set[int] = set()
        self.cut: set[int] = set()
        self.decoded: set[int] = set()
        self.normalized: set[int] = set()

    def add(self, node: Node) -> None:
        """Adds the outputs of a node to the sets that they belong to."""
        view, mean = self.view, id(node) in self.means
        inputs = view.dependent.intersection(node.inputs)
        if view.has_weights(node) and not mean:
            self.behind.update(node.outputs)
        elif not self.behind.isdisjoint(inputs):
            keeps, squashes = _keeps(view, node), node.op in SQUASHING or mean
            by_element = keeps or squashes
            sets = [self.behind]
            if squashes or (keeps and self.squashed.issuperset(inputs)):
                sets.append(self.squashed)
            if node.op in NORMALIZING or not self.normalized.isdisjoint(inputs):
                sets.append(self.normalized)
            if node.op in CUTS or (by_element and not self.cut.isdisjoint(inputs)):
                sets.append(self.cut)
            if (by_element or node.op == "SUM") and not self.decoded.isdisjoint(inputs):
                sets.append(self.decoded)
            for tensors in sets:
                tensors.update(node.outputs)

    def constants(self, node: Node) -> list[int]:
        """Returns the constants of a node that decode results of the last layer."""
        view = self.view
        if self.behind.isdisjoint(node.outputs) or not self.before.isdisjoint(node.outputs):
            return []
        if id(node) in self.means:
            self.decoded.update(node.outputs)
            sources = (view.source(i) for i in node.inputs if i != ABSENT)
            return [i for i in sources if view.is_real(i)]
        operand = view.operand(node) or _computed_operand(view, node)
        if operand is None or operand[0] not in self.behind or not self._decodes(*operand):
            return []
        constants = _constants_of(view, operand[1])
        if constants:
            self.decoded.update(node.outputs)
        return constants

    def _decodes(self, x: int, c: int) -> bool:
        """Whether a constant that changes results of the last layer decodes them."""
        view = self.view
        axes = view.axes(c)
        by_channel = axes in ([], [0])
        if x in self.decoded or (_is_softmax(view, x) and _are_in_order(view, c)):
            return True
        if x in self.squashed:
            return not by_channel or x in self.cut
        by_position = len(axes) > 1 or (not by_channel and x in self.cut)
        return by_position and x not in self.normalized


def _means(view: View) -> set[int]:
    """Returns the ids of convolutions of a SOFTMAX with numbers in order, which are no weights."""
    means = set[int]()
    for node in view.nodes:
        layer = view.layer(node)
        if layer is None or view.maker(node.inputs[layer.x]) != "SOFTMAX":
            continue
        bias = view.bias(node)
        has_bias = bias != ABSENT and not view.is_zero(bias)
        if not has_bias and _are_in_order(view, view.source(node.inputs[layer.w])):
            means.add(id(node))
    return means


def _is_softmax(view: View, i: int) -> bool:
    """Whether a tensor is a softmax, also one that litert-torch writes as exp(x) / sum(exp(x))."""
    node = view.makers.get(view.behind(i))
    if node is None or node.op != "DIV" or len(node.inputs) != 2:
        return node is not None and node.op == "SOFTMAX"
    exponentials, total = node.inputs
    sums = view.makers.get(view.behind(total))
    is_share = sums is not None and sums.op == "SUM" and sums.inputs[:1] == (exponentials,)
    return is_share and view.maker(exponentials) == "EXP"


def _computed_operand(view: View, node: Node) -> tuple[int, int] | None:
    """Returns the tensor of a BINARY operator, and an operand put together from constants."""
    if node.op in BINARY and len(node.inputs) == 2 and ABSENT not in node.inputs:
        a, b = node.inputs
        for x, c in ((a, b), (b, a)):
            if x in view.dependent and c not in view.dependent:
                return x, c
    return None


def _constants_of(view: View, i: int) -> list[int]:
    """Returns the constants of real numbers of which a tensor is put together."""
    rest, seen = [i], {i}
    for k in rest:
        node = view.makers.get(k)
        if node is not None:
            if node.op not in VIEWS and node.op not in JOINS:
                return []
            new = [j for j in node.inputs if j != ABSENT and j not in seen]
            seen.update(new)
            rest += new
    return [k for k in rest if view.is_real(k)]


def _are_in_order(view: View, i: int) -> bool:
    """Whether the values of a constant have equal steps, up to the rounding of the file."""
    if view.tensors[i].data is None:
        return False
    steps = np.diff(view.values(i).reshape(-1))
    if len(steps) < MIN_STEPS:
        return False
    quantization = view.tensors[i].quantization
    rounding = 0.0 if quantization is None else float(quantization.first.scale.max())
    step = abs(steps[0])
    return bool(step > rounding and np.ptp(steps) <= max(EQUAL * step, EXACT * rounding))


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
        has_constant = any(view.tensors[view.source(i)].data is not None for i in node.inputs)
        return has_constant or len({*node.inputs}) == 1 or node.op in SHIFTS
    return node.op in KEEPING
