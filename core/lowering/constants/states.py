"""Zeros that are data: initial states of recurrent layers, arrays of loops, padding.

A constant of zeros is data, and not a weight, where a layer reads it as its input, where a gate
scales it, where parts of it are replaced, and where it is joined to an activation.
core/lowering/normalize/inliner.py marks the constants with which loops begin.
"""

from collections.abc import Iterator

from odt.core.lowering.constants.view import JOINS, LAYERS, PRODUCTS, VIEWS, Layer, View
from odt.core.model.graph import ABSENT, Node

STATE = "initial state of a recurrent layer"
ARRAY = "array in which results are collected"
PADDING = "zeros joined to an activation"
GATES = ("LOGISTIC", "RELU_0_TO_1", "MINIMUM", "MAXIMUM", "RELU6", "HARD_SIGMOID")
RANK, TIME = 3, 1  # of an array with a sequence of vectors


def zeros_as_data(view: View) -> Iterator[tuple[int, str]]:
    """Yields constants of zeros that are data, with the reason."""
    for node in view.nodes:
        if node.op in PRODUCTS:
            layer = view.layer(node)
            if layer is not None:
                i = view.source(node.inputs[layer.x])
                if view.is_zero(i) and not _is_filter(view, node):
                    yield i, STATE
        elif node.op in JOINS:
            yield from ((i, PADDING) for i in _joined_zeros(view, node))
        elif node.op == "DYNAMIC_UPDATE_SLICE" and node.inputs[:1] != (ABSENT,):
            i = view.source(node.inputs[0])
            if view.is_zero(i):
                yield i, ARRAY
        elif node.op == "MUL" and (operand := view.operand(node)) is not None:
            x, i = operand
            is_gate = view.tensors[x].spec.shape == view.tensors[i].spec.shape
            is_added = all(user.op == "ADD" for user in view.users(node.outputs[0]))
            if is_gate and is_added and view.maker(x) in GATES and view.is_zero(i):
                yield i, STATE


def _is_filter(view: View, node: Node) -> bool:
    """Whether the result of a product of two constants is the filter of a layer."""
    results, seen = list(node.outputs), set(node.outputs)
    while results:
        i = results.pop()
        for user in view.readers.get(i, ()):
            layer = LAYERS.get(user.op, Layer(0, 1, 2))
            if user.op in PRODUCTS and user.inputs[layer.w : layer.w + 1] == (i,):
                return True
            others = [k for k in user.inputs if k != i and view.tensors[k].data is None]
            if user.op in VIEWS or (user.op in ("ADD", "MUL") and not others):
                results += [k for k in user.outputs if k not in seen]
                seen.update(user.outputs)
    return False


def _joined_zeros(view: View, node: Node) -> Iterator[int]:
    """Yields the zeros that a node joins to activations, other than a token of a sequence.

    The class token of a vision transformer is one vector before a sequence. It is a weight that
    starts at 0.
    """
    constants = [view.source(i) for i in node.inputs if i != ABSENT]
    if all(view.tensors[i].data is not None for i in constants):
        return
    for i in constants:
        shape = view.tensors[i].spec.shape
        axis = int(node.options.get("axis") or 0) % max(len(shape), 1)
        token = node.op == "CONCATENATION" and len(shape) == RANK and axis == TIME
        if view.is_zero(i) and not (token and shape[TIME] == 1):
            yield i
