"""Constants of decoders: anchors, grids of cells and factors behind the last weights.

A detector squashes the outputs of its last layer, and then computes boxes from parts of them with
constants for each anchor or cell. No layer with weights follows.
"""

from collections.abc import Iterator

from odt.core.lowering.constants.view import BINARY, CUTS, JOINS, VIEWS, View
from odt.core.model.graph import ABSENT, Node

DECODER = "decoder: anchors, grid or factors behind the last weights"
SQUASHING = ("LOGISTIC", "TANH", "SOFTMAX", "EXP", "RELU_0_TO_1", "RELU_N1_TO_1", "HARD_SWISH")
KEEPING = (*VIEWS, *JOINS, "SQUARE", "NEG", "EXP", "CONCATENATION")
NORMALIZING = ("MEAN", "SUM", "RSQRT", "SQRT", "L2_NORMALIZATION")


def decoders(view: View) -> Iterator[tuple[int, str]]:
    """Yields the constants of decoders, with the reason."""
    before = _before_weights(view)
    behind, squashed, cut, normalized = set[int](), set[int](), set[int](), set[int]()
    for node in view.nodes:
        inputs = {i for i in node.inputs if i != ABSENT}
        if view.has_weights(node):
            behind.update(node.outputs)
            continue
        if behind.isdisjoint(inputs):
            continue
        behind.update(node.outputs)
        operand = view.operand(node)
        if node.op in SQUASHING or (_keeps(view, node) and not squashed.isdisjoint(inputs)):
            squashed.update(node.outputs)
        if node.op in NORMALIZING or not normalized.isdisjoint(inputs):
            normalized.update(node.outputs)
        if node.op in CUTS or (_keeps(view, node) and not cut.isdisjoint(inputs)):
            cut.update(node.outputs)
        if operand is None or not before.isdisjoint(node.outputs):
            continue
        x, c = operand
        if x not in view.dependent:
            continue
        by_channel = view.axes(c) in ([], [0])
        by_position = bool(_positions(view, c))
        if x in squashed:
            decodes = not by_channel or x in cut
        else:
            decodes = by_position and x not in normalized
        if decodes and view.weight(c):
            yield c, DECODER


def _before_weights(view: View) -> set[int]:
    """Returns the tensors on which a layer with weights depends."""
    found = set[int]()
    for node in reversed(view.nodes):
        if view.has_weights(node) or not found.isdisjoint(node.outputs):
            found.update(node.inputs)
    return found


def _keeps(view: View, node: Node) -> bool:
    """Whether the results of a node are its inputs, in another order or by constant formulas."""
    if node.op in BINARY:
        return view.operand(node) is not None or len({*node.inputs}) == 1
    return node.op in KEEPING


def _positions(view: View, c: int) -> list[int]:
    """Returns the axes of positions of a constant: those other than the channels of one axis."""
    axes = view.axes(c)
    return axes if len(axes) > 1 else []
