"""Zero biases that converters add, since the format asks each convolution for one.

Nothing in a file tells them from the biases of a network that has not been trained. They are held
if other biases are not zero, so that the network has been trained, and if

- several layers with filters of their own read the same zeros, or
- the bias adds nothing to the network: no activation is between it and a shift that is not zero, or
  a normalization takes the mean away.
"""

from collections.abc import Iterator

from odt.core.lowering.constants.view import LAYERS, SCALES, SHIFTS, VIEWS, View
from odt.core.model.graph import ABSENT, Node

ADDED = "bias of zeros that a converter added"
MAX_OPERATORS = 16  # operators between a bias and the shift that absorbs it
LINEAR = (*VIEWS, *SCALES, "MEAN", "SUM", "AVERAGE_POOL_2D", "NEG")


def added_biases(view: View) -> Iterator[tuple[int, str]]:
    """Yields biases of convolutions that a converter added, with the reason."""
    biases: dict[int, list[Node]] = {}
    for node in view.nodes:
        i = view.bias(node)
        if i != ABSENT:
            biases.setdefault(i, []).append(node)
    zeros = [i for i in biases if view.is_zero(i)]
    trained = len(zeros) < len(biases) or any(_shifts(view, node) for node in view.nodes)
    if not zeros or not trained:
        return
    for i in zeros:
        layers = biases[i]
        if any(node.op == "FULLY_CONNECTED" for node in layers):
            continue
        if any(view.bias(user) != i for user in view.readers.get(i, ())):
            continue
        filters = {view.source(node.inputs[LAYERS[node.op].w]) for node in layers}
        if len(filters) > 1 or all(_is_absorbed(view, node) for node in layers):
            yield i, ADDED


def _shifts(view: View, node: Node) -> bool:
    """Whether a node adds numbers per channel that are not zero to a result of the network."""
    operand = view.operand(node) if node.op == "ADD" else None
    if operand is None or view.behind(operand[0]) in view.graph.inputs:
        return False
    return view.is_vector(operand[1]) and not view.is_zero(operand[1])


def _is_absorbed(view: View, node: Node, depth: int = 0) -> bool:
    """Whether all that reads a result adds a shift to it, without an activation before."""
    y = node.outputs[0]
    users = [user for user in view.readers.get(y, ()) if user.op != "SHAPE"]
    if node.options.get("fused_activation_function") or not users or y in view.graph.outputs:
        return False
    if any(user.op == "SQUARED_DIFFERENCE" for user in users):
        return True  # a normalization: the mean is subtracted
    if any(user.op == "SUB" and view.maker(user.inputs[1]) == "MEAN" for user in users):
        return True
    return depth < MAX_OPERATORS and all(_absorbs(view, user, y, depth) for user in users)


def _absorbs(view: View, user: Node, y: int, depth: int) -> bool:
    if user.op in SHIFTS:
        other = next((i for i in user.inputs if i != y), y)  # y, if it is added to itself
        return _is_shifted(view, other)
    bias = view.bias(user)
    if bias != ABSENT and user.inputs[LAYERS[user.op].x] == y:
        return not view.is_zero(bias)
    if user.op in LINEAR and (user.op not in SCALES or view.operand(user)):
        return _is_absorbed(view, user, depth + 1)
    return False


def _is_shifted(view: View, i: int) -> bool:
    """Whether a sum or the result of a layer has a shift that is not zero."""
    rest = [i]
    for _ in range(MAX_OPERATORS):
        if not rest:
            return False
        i = view.behind(rest.pop())
        node = view.makers.get(i)
        if view.is_real(i):
            return not view.is_zero(i)
        if node is None:
            continue
        bias = view.bias(node)
        if bias != ABSENT and not view.is_zero(bias):
            return True
        if node.op in SHIFTS:
            rest += [k for k in node.inputs if k != ABSENT]
    return False
