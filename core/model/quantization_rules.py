"""Rules of quantized tensors, checked before a file's integers are computed or trained.

Source: TFLite's 8-bit quantization specification.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from odt.core.model.graph import ABSENT, Graph, Node
from odt.core.model.integer_operators import LSTM
from odt.core.model.model import Model
from odt.errors import ModelError
from odt.kernels.geometry.quantize import Quantization, limits
from odt.kernels.rows.opdef import Array
from odt.kernels.rows.quantized_index import QUANTIZED
from odt.kernels.rows.quantizeddef import Layer

ACTIVATIONS = tuple(map(np.dtype, (np.int8, np.uint8, np.int16)))
SMALLEST = float(np.finfo(np.float32).tiny)  # no smaller scale has an inverse
# How far the scale of a bias may be from s_x s_w, as a fraction of it. LiteRT counts a bias in
# s_x s_w and does not read its scale, which some converters write up to 31 % off.
BIAS_TOLERANCE = 0.4

# Operators of one layer, such as CONV_2D.
LAYERS = {op: row.layers[0] for op, row in QUANTIZED.items() if len(row.layers) == 1}
SVDF_LAYER = Layer(4, 2, 3, 0)  # its bias follows a product of the state
PEEPHOLES, PROJECTION = slice(9, 12), 16  # positions of an LSTM's weights
LSTM_STATE, LSTM_CELL = 18, 19  # positions of its state
MAX_VALUES = 3  # that a message shows
MAX_INPUTS = 24  # of an LSTM, the operator with the most
SMALLEST_CELL, LARGEST_CELL = -15, -9  # exponents of the scale of a cell


def layers_of(op: str) -> tuple[Layer, ...]:
    """Returns the layers of an operator whose biases have the scale of x times that of w."""
    return QUANTIZED[op].layers if op in QUANTIZED else ()


def _all_inputs(node: Node) -> tuple[int, ...]:
    """Returns inputs by position; those that a file leaves out at the end are ABSENT."""
    return (*node.inputs, *[ABSENT] * (MAX_INPUTS - len(node.inputs)))


def with_cell_clip(model: Model, node: Node) -> Node:
    """Returns an LSTM whose cell is limited to what its integers represent; others as they are."""
    cell = _all_inputs(node)[LSTM_CELL]
    if node.op != LSTM or cell not in model.quantization:
        return node
    smallest, _ = limits(np.dtype(np.int16))
    most = -smallest * float(model.quantization[cell].scale[0])
    clip = min(node.options.get("cell_clip") or most, most)
    return replace(node, options={**node.options, "cell_clip": clip})


def has_quantized_activations(model: Model) -> bool:
    """Whether activations of a file are integers that represent real numbers."""
    weights = {i for n in model.graph.nodes if n.op == "DENSIFY" for i in n.outputs}
    return any(
        t.data is None and t.quantized and t.spec.dtype in ACTIVATIONS and i not in weights
        for i, t in enumerate(model.graph.tensors)
    )


def is_quantized_activation(graph: Graph, i: int) -> bool:
    """Whether a tensor is an activation of integers with a scale."""
    tensor = graph.tensors[i]
    return tensor.data is None and tensor.spec.dtype.kind in "iu" and tensor.quantized


def is_same_quantization(a: Quantization | None, b: Quantization | None) -> bool:
    """Whether two quantizations have the same bits of scales and zero points, or both are None."""
    if a is None or b is None:
        return a is b
    pairs = (a.scale, b.scale), (a.zero_point, b.zero_point)
    return all(x.tobytes() == y.tobytes() for x, y in pairs)


def check_constants(model: Model) -> None:
    """Checks the scales of constants of integers: one, or one for each entry of an axis or block.

    Raises:
        ModelError: if they have not; names the first such constant.
    """
    read = {i for node in model.graph.nodes for i in node.inputs}
    for i, quantization in model.quantization.items():
        tensor = model.graph.tensors[i]
        count, shape = quantization.scale.size, tensor.spec.shape
        if tensor.data is None or i not in read:
            continue
        if quantization.blocks and not _are_contiguous(quantization.blocks, shape):
            raise ModelError(
                f"{model.path}: {model.graph.label(i)}: a block must be a contiguous part of a "
                f"unit, but got blocks of {quantization.blocks} in {tensor.spec}."
            )
        if quantization.blocks or count in (1, tensor.spec.size):
            continue
        if not 0 <= quantization.axis < len(shape) or shape[quantization.axis] != count:
            raise ModelError(
                f"{model.path}: {model.graph.label(i)}: there must be one scale, or one for each "
                f"entry of an axis, but got {count} along axis {quantization.axis} of "
                f"{tensor.spec}."
            )


def _are_contiguous(blocks: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether the values of each block are side by side, in one entry of axis 0."""
    axes = [k for k, size in enumerate(blocks) if size > 1]
    return not axes or (axes[0] > 0 and tuple(blocks[axes[0] + 1 :]) == tuple(shape[axes[0] + 1 :]))


def check_quantization(model: Model) -> None:
    """Checks the quantization of every tensor that a node on integers reads or computes.

    Raises:
        ModelError: if a scale or a zero point is missing, invalid, or does not fit its operator.
    """
    for where, rule in _faults(model):
        raise ModelError(f"{model.path}: {where}: {rule}")


def _faults(model: Model) -> Iterator[tuple[str, str]]:
    """Yields places, and rules that they break."""
    graph = model.graph
    checked: set[int] = set()
    for node in graph.nodes:
        bound = [i for i in (*node.inputs, *node.outputs) if i != ABSENT]
        integers = [i for i in bound if graph.tensors[i].spec.dtype in ACTIVATIONS]
        active = [i for i in bound if is_quantized_activation(graph, i)]
        active += [i for i in integers if graph.tensors[i].data is None]
        if not active:
            continue
        if node.op in QUANTIZED and QUANTIZED[node.op].needs_scale:
            for i in integers:
                if i not in model.quantization:
                    where = f"node {node.origin} ({node.op}), {graph.label(i)}"
                    dtype = graph.tensors[i].spec.dtype
                    yield where, f"{dtype} must have a scale, but got none."
        for i in bound:
            if i in model.quantization and i not in checked:
                checked.add(i)
                for rule in _tensor_faults(graph, i, model.quantization[i]):
                    yield graph.label(i), rule
        where = f"node {node.origin} ({node.op})"
        if node.op == LSTM:
            yield from ((where, rule) for rule in _lstm_faults(model, node))
        for layer in (SVDF_LAYER,) if node.op == "SVDF" else layers_of(node.op):
            yield from ((where, rule) for rule in _bias_faults(model, node, layer))
        for layer in layers_of(node.op):
            yield from ((where, rule) for rule in _layer_faults(model, node, layer))


def _tensor_faults(graph: Graph, i: int, quantization: Quantization) -> Iterator[str]:
    """Yields rules that the scales and zero points of a tensor break."""
    tensor = graph.tensors[i]
    if tensor.spec.dtype.kind not in "iu":
        return
    bad = ~(np.isfinite(quantization.scale) & (quantization.scale >= SMALLEST))
    if bad.any():
        yield f"scales must be positive numbers, but got {_first(quantization.scale[bad])}."
    count = quantization.scale.size
    if count > 1 and tensor.data is None:
        yield f"an activation must have one scale, but got {count}."
    if count > 1 and (
        not 0 <= quantization.axis < len(tensor.spec.shape)
        or tensor.spec.shape[quantization.axis] != count
    ):
        yield (
            "there must be one scale, or one for each entry of an axis, "
            f"but got {count} along axis {quantization.axis} of {tensor.spec}."
        )
    lo, hi = limits(tensor.spec.dtype)
    if tensor.spec.dtype == np.int16 and any(
        n.op == "SOFTMAX" and i in n.outputs and graph.tensors[n.inputs[0]].spec.dtype == np.int8
        for n in graph.nodes
    ):
        hi = lo  # LiteRT writes its probabilities from the smallest integer on
    elif tensor.spec.dtype.itemsize > 1:
        lo = hi = 0
    outside = (quantization.zero_point < lo) | (quantization.zero_point > hi)
    if outside.any():
        rule = f"{lo}" if lo == hi else f"from {lo} to {hi}"
        yield (
            f"zero points of {tensor.spec.dtype} must be {rule}, "
            f"but got {_first(quantization.zero_point[outside])}."
        )


def _lstm_faults(model: Model, node: Node) -> Iterator[str]:
    """Yields rules that an LSTM on integers breaks."""
    graph, quantization = model.graph, model.quantization
    absent = QUANTIZED[LSTM].absent
    forbidden = {absent[k] for k, i in enumerate(node.inputs) if i != ABSENT and k in absent}
    if forbidden:
        yield (
            "a quantized LSTM must be without bias of its projection and layer normalization, "
            f"but got {', '.join(sorted(forbidden))}."
        )
    for name in ("cell_clip", "proj_clip"):
        clip = node.options.get(name, 0.0)
        if not 0 <= clip < np.inf:
            yield f"{name} must be a number of 0 or more, but got {clip:g}."
            return
    inputs = _all_inputs(node)
    for i in (*inputs[PEEPHOLES], inputs[PROJECTION]):
        dtype = np.dtype(np.int8 if i == inputs[PROJECTION] else np.int16)
        if i != ABSENT and (i not in quantization or graph.tensors[i].spec.dtype != dtype):
            actual = f"{graph.tensors[i].spec.dtype}"
            yield f"{graph.label(i)} must be {dtype} with a scale, but got {actual}."
            return
    if inputs[PROJECTION] != ABSENT:
        yield from _projection_faults(node, graph.tensors[inputs[PROJECTION]].spec.shape)
    state, cell, y = inputs[LSTM_STATE], inputs[LSTM_CELL], node.outputs[0]
    named = {"x": inputs[0], "the state": state, "the cell": cell, "y": y}
    for name, i in named.items():
        dtype = np.dtype(np.int16 if name == "the cell" else np.int8)
        if i not in quantization or graph.tensors[i].spec.dtype != dtype:
            actual = "none" if i == ABSENT else f"{graph.tensors[i].spec.dtype}"
            yield f"{name} of a quantized LSTM must be {dtype} with a scale, but got {actual}."
            return
    first, last = quantization[state], quantization[y]
    if first.scale[0] != last.scale[0] or first.zero_point[0] != last.zero_point[0]:
        yield (
            "the state of an LSTM must have the scale and zero point of its output, but got "
            f"{first.scale[0]:.6g} and {last.scale[0]:.6g}."
        )
    scale = float(quantization[cell].scale[0])
    if scale not in [2.0**k for k in range(SMALLEST_CELL, LARGEST_CELL + 1)]:
        yield (
            f"the scale of the cell of an LSTM must be a power of two from 2^{SMALLEST_CELL} to "
            f"2^{LARGEST_CELL}, but got {scale:.6g}."
        )


def _projection_faults(node: Node, shape: Sequence[int]) -> Iterator[str]:
    """Yields rules that the projection of an LSTM on integers, of a given shape, breaks."""
    scale, zero_point = node.options.get("hidden", (0.0, 0))
    lo, hi = limits(np.dtype(np.int8))
    if not SMALLEST <= scale < np.inf or not lo <= zero_point <= hi:
        yield (
            "what the projection of a quantized LSTM reads, its intermediate tensor 4, must have a "
            f"positive scale and a zero point of int8, but got {scale:g} and {zero_point}."
        )
    if node.options.get("proj_clip", 0.0) > 0:
        yield "a quantized LSTM must be without proj_clip, but got one."
    if node.inputs[PEEPHOLES] != (ABSENT,) * 3 and len({*shape}) > 1:
        yield (
            "the projection of a quantized LSTM with peepholes, which LiteRT computes for as many "
            f"cells as outputs, must be square, but got {shape}."
        )


def _bias_faults(model: Model, node: Node, layer: Layer) -> Iterator[str]:
    """Yields rules that the length of a bias breaks."""
    inputs = _all_inputs(node)
    w, b = model.quantization.get(inputs[layer.w]), inputs[layer.b]
    bias = model.graph.tensors[b] if b != ABSENT else None
    if w is None or bias is None or bias.data is None or w.scale.size == 1:
        return
    if w.axis != layer.axis:  # named by _layer_faults
        return
    if bias.data.size != w.scale.size:
        yield (
            f"{model.graph.label(b)}: a bias must have {w.scale.size} values, one for each scale "
            f"of the weights, but got {bias.data.size}."
        )


def _layer_faults(model: Model, node: Node, layer: Layer) -> Iterator[str]:
    """Yields rules that the weights and the bias of a layer on integers break."""
    graph = model.graph
    inputs = _all_inputs(node)
    x, w, b = inputs[layer.x], inputs[layer.w], inputs[layer.b]
    if x not in model.quantization or w not in model.quantization or len(node.outputs) != 1:
        return
    first, weights = model.quantization[x], model.quantization[w]
    count = weights.scale.size
    if weights.blocks or (count > 1 and weights.axis != layer.axis):
        actual = (
            f"of blocks of {weights.blocks}" if weights.blocks else f"along axis {weights.axis}"
        )
        yield (
            f"{graph.label(w)}: scales must be along axis {layer.axis}, but got {count} {actual}."
        )
        return
    bias = graph.tensors[b] if b != ABSENT else None
    y = model.quantization.get(node.outputs[0])
    if bias is None or y is None:
        return
    bias_type = np.dtype(np.int64 if graph.tensors[x].spec.dtype == np.int16 else np.int32)
    if bias.spec.dtype not in (bias_type, np.dtype(np.int32)):
        yield f"{graph.label(b)}: a bias must be {bias_type}, but got {bias.spec.dtype}."
        return
    quantization = model.quantization.get(b)
    if quantization is None or bias.data is None or quantization.scale.size not in (1, count):
        return
    scale = first.scale[0].astype(np.float64) * weights.scale
    error = np.abs(quantization.scale - scale)
    if error.size not in (1, bias.data.size):  # named by _bias_faults
        return
    # What is less than half a step of y changes nothing: converters clip the scales of such units.
    effect = error * np.abs(bias.data.astype(np.float64)).reshape(-1)
    bad = (error > BIAS_TOLERANCE * scale) & np.broadcast_to(effect > y.scale[0] / 2, effect.shape)
    if bad.any():
        k = int(np.argmax(bad))
        yield (
            f"{graph.label(b)}: the scale of a bias must be that of the input times that of the "
            f"weights, {scale[min(k, count - 1)]:.6g}, "
            f"but got {quantization.scale[min(k, quantization.scale.size - 1)]:.6g}."
        )


def _first(values: Array) -> str:
    """Formats the first values of an array."""
    texts = [f"{v:g}" for v in values[:MAX_VALUES].tolist()]
    return ", ".join([*texts, "…"] if values.size > MAX_VALUES else texts)
