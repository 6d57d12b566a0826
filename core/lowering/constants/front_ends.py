"""Constants between the inputs and the first weights: preprocessing and signal front ends.

All numbers that depend on the inputs and on constants of formulas alone are data. A mean and a
standard deviation for each channel, a factor and an offset, a window, a transform and a bank of
filters that are applied to data are such constants, too, and their result is data again.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from odt.core.lowering.constants.signals import (
    EXACT,
    ROUNDED,
    are_quadratures,
    is_filter_bank,
    is_sinusoidal,
    is_split_quadrature,
)
from odt.core.lowering.constants.view import PRODUCTS, ROUNDING, SCALES, SHIFTS, Layer, View
from odt.core.model.graph import ABSENT, Node
from odt.kernels.rows.opdef import Array

PREPROCESSING = "preprocessing: applied to an input before the first weights"
TRANSFORM = "signal front end: transform of an input"
BANK = "signal front end: bank of filters"
# Statistics of the data: constants that scale and shift their results are weights.
STATISTICS = ("MEAN", "SUM", "RSQRT", "L2_NORMALIZATION", "SQUARED_DIFFERENCE", "ARG_MAX")
LOGARITHM = ("LOG", "MAXIMUM", "ADD", "SQRT", "POW")
SPECTRA = ("SQUARE", "ABS", "COMPLEX_ABS", "SQRT", "MUL", "ADD", "POW")
# Filters by input, operator and position among its inputs, with the number of their layers.
Filters = dict[tuple[int, str, int], Counter[int]]
MAX_OPERATORS = 8  # operators between a bank of filters and its logarithm


def front_end(view: View) -> Iterator[tuple[int, str]]:
    """Yields constants of formulas before the first weights, with the reason."""
    data = set(view.graph.inputs)
    leads = _leads_to_weights(view)
    filters: Filters = {}
    reasons: dict[int, str] = {}
    for node in view.nodes:
        if not _is_of_data(view, node, data) or node.op in STATISTICS:
            continue
        constants = [
            c for c in map(view.source, node.inputs) if view.is_weight(c) and c not in reasons
        ]
        if constants and node.op not in ROUNDING:
            reasons_of_node = _reasons(view, node, leads, filters)
            if not reasons_of_node.keys() >= {*constants}:
                continue
            reasons |= reasons_of_node
        data.update(node.outputs)
    yield from reasons.items()


def _is_of_data(view: View, node: Node, data: set[int]) -> bool:
    """Whether a node depends on data, and on nothing else that is computed."""
    inputs = view.dependent.intersection(node.inputs)
    return bool(inputs) and data >= inputs


def _leads_to_weights(view: View) -> set[int]:
    """Returns the tensors on which layers with weights depend."""
    leads = set[int]()
    for node in reversed(view.nodes):
        if view.has_weights(node) or not leads.isdisjoint(node.outputs):
            leads.update(node.inputs)
    return leads


def _reasons(view: View, node: Node, leads: set[int], filters: Filters) -> dict[int, str]:
    """Returns the constants of a node that belong to a formula, with the reason."""
    layer = view.layer(node)
    if node.op in PRODUCTS and layer is not None:
        return _product_reasons(view, node, layer, filters)
    operand = view.operand(node)
    if operand is None or leads.isdisjoint(node.outputs):
        return {}
    x, c = operand
    values = view.values(c)
    if node.op in SCALES and not (values >= 0).all():
        return {}
    if not view.is_vector(c):  # a table of positions is added, and nothing else
        before, after = view.makers.get(view.behind(x)), view.readers.get(node.outputs[0], ())
        is_shifted = before is not None and before.op in SHIFTS
        is_scaled = any(user.op in SCALES and view.operand(user) for user in after)
        normalizes = is_shifted if node.op in SCALES else node.op == "SUB" and is_scaled
        if not normalizes:
            return {}
    elif node.op == "MUL" and view.uniform(c) == 1:
        return {}
    return {c: PREPROCESSING}


def _product_reasons(view: View, node: Node, layer: Layer, known: Filters) -> dict[int, str]:
    """Returns filter and bias of a layer if they are a transform or a bank of filters."""
    filters, bias = view.source(node.inputs[layer.w]), view.bias(node)
    values = _rows(view, node, filters)
    tolerance = tolerance_of(view, filters)
    counts = _filters_of_input(view, node, layer, known)
    others = [i for i, count in counts.items() if i != filters or count > 1]
    if bias != ABSENT and view.uniform(bias) is None:
        return {}
    biases = () if bias == ABSENT else (bias,)
    if is_sinusoidal(values, tolerance) or is_split_quadrature(values, tolerance):
        return dict.fromkeys((filters, *biases), TRANSFORM)
    for other in others:
        if view.is_real(other) and are_quadratures(values, _rows(view, node, other), tolerance):
            return dict.fromkeys((filters, *biases), TRANSFORM)
    if is_filter_bank(values) and _reaches_log(view, node):
        return dict.fromkeys((filters, *biases), BANK)
    return {}


def _filters_of_input(view: View, node: Node, layer: Layer, known: Filters) -> Counter[int]:
    """Counts the filters of the layers of one kind that read the same input.

    `known` has those of earlier layers: thousands of steps of a loop may read one input.
    """
    key = node.inputs[layer.x], node.op, layer.w
    if key not in known:
        users = view.readers.get(node.inputs[layer.x], ())
        inputs = [user.inputs for user in users if user.op == node.op]
        known[key] = Counter(view.source(each[layer.w]) for each in inputs if len(each) > layer.w)
    return known[key]


def _rows(view: View, node: Node, i: int) -> Array:
    """Returns a filter as a matrix with one row for each output channel."""
    values = view.values(i)
    if node.op == "DEPTHWISE_CONV_2D":
        return values.reshape(-1, values.shape[-1]).T
    if values.ndim < 2:  # a vector with axes of length 1
        return values.reshape(1, -1)
    if node.op == "BATCH_MATMUL" and not node.options.get("adj_y"):
        return values.swapaxes(-1, -2).reshape(-1, values.shape[-2])
    return values.reshape(len(values), -1) if values.size else np.zeros((0, 0))


def tolerance_of(view: View, i: int) -> float:
    """Returns the tolerance for values that the file may store as integers."""
    return EXACT if view.tensors[i].quantization is None else ROUNDED


def spectra(view: View) -> Iterator[tuple[int, str]]:
    """Yields the constants before a bank of filters whose logarithm is taken.

    Transforms whose form is hidden by a window or by rounding to integers belong to it, too.
    """
    for node in view.nodes:
        layer = view.layer(node)
        if layer is None or view.maker(node.inputs[layer.x]) not in SPECTRA:
            continue
        filters = view.source(node.inputs[layer.w])
        if _reaches_log(view, node) and is_filter_bank(_rows(view, node, filters)):
            for i in _constants_before(view, node):
                yield i, BANK if i in (filters, view.bias(node)) else TRANSFORM


def _reaches_log(view: View, node: Node) -> bool:
    """Whether a logarithm is taken of a result, possibly after a lower limit or an offset."""
    results, count = list(node.outputs), len(node.outputs)
    while results:
        for user in view.users(results.pop()):
            if user.op == "LOG":
                return True
            if user.op in LOGARITHM and count < MAX_OPERATORS:
                results += user.outputs
                count += len(user.outputs)
    return False


def _constants_before(view: View, node: Node) -> list[int]:
    """Returns the constants of real numbers on which a node depends, its own included."""
    constants: dict[int, None] = {}  # a set in the order of the search
    seen: set[int] = set()
    rest = list(node.inputs)
    while rest:
        i = rest.pop()
        if i == ABSENT or i in seen:
            continue
        seen.add(i)
        if view.is_real(i):
            constants[i] = None
        maker = view.makers.get(i)
        rest += maker.inputs if maker is not None else ()
    return list(constants)
