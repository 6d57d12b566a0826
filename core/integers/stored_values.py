"""Trained weights of the fake-quantized graph as integers, in the types of the file."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from odt.core.model.dequantize import DequantizedGraph, as_stored
from odt.core.model.graph import ABSENT, Node
from odt.core.model.model import Model
from odt.core.model.packed_integers import pack_integers, packed_bits
from odt.core.model.quantization_rules import SVDF_LAYER, layers_of
from odt.core.model.variables import SVDF
from odt.kernels.geometry.quantize import Quantization, dequantize, limits, quantize
from odt.kernels.rows.opdef import Array

ROUNDING = 0.01  # largest relative difference of scales that differ by rounding alone
MAX_BIAS = 1_100_000_000  # of the integers of a bias, half of what 32 bits hold
MAX_WIDE_BIAS = 2**46  # of int64, half of the 48 bits of sums that LiteRT's kernels multiply


def stored_values(
    model: Model, dequantized: DequantizedGraph, weights: Mapping[int, Array]
) -> tuple[dict[int, Array], dict[int, Quantization]]:
    """Quantizes trained weights to the types in which the file stores them.

    Biases of integers are quantized with the new scales of their layers' weights, also if they do
    not train.

    Args:
        model: the model.
        dequantized: its graph from `real_graph`.
        weights: tensor of that graph → float32 values.

    Returns:
        Values by tensor of the file, and the quantizations of those that are integers.

    Raises:
        UnsupportedError: as `as_stored` does.
    """
    graph = dequantized.graph
    values: dict[int, Array] = {}
    new: dict[int, Quantization] = {}
    for i, real in weights.items():
        quantization = graph.tensors[i].quantization
        if i in dequantized.ranges:
            activations = dequantized.ranges[i]
            dtype = model.graph.tensors[activations[0]].spec.dtype
            new |= dict.fromkeys(activations, _range_quantization(real, dtype))
        elif quantization is not None:
            place = dequantized.stored.get(i, i)
            values[place], new[place] = quantization.quantize(real)
    weights = {i: real for i, real in weights.items() if i not in dequantized.ranges}
    for x, w, b in integer_biases(model):
        if w not in new and b not in weights and x not in new:
            continue
        old, stored = graph.tensors[b].data, graph.tensors[w]
        assert old is not None
        assert stored.quantization is not None
        bias, first = weights.get(b, old), stored.quantization.first
        s_x = new.get(x, model.quantization[x]).scale
        is_wide = model.graph.tensors[b].spec.dtype == np.int64
        most = MAX_WIDE_BIAS if is_wide else MAX_BIAS
        least = abs(bias) / (s_x * np.float32(most))  # so that the integers hold the bias
        if (least > new.get(w, first).scale).any():
            trained = weights.get(w, stored.real)
            assert trained is not None
            values[w], new[w] = stored.quantization.quantize(trained, least)
        values[b], new[b] = _stored_bias(model, (x, w, b), bias, s_x, new.get(w, first).scale)
    rest = {i: a for i, a in weights.items() if dequantized.stored.get(i, i) not in values}
    others, quantizations = as_stored(model, dequantized, rest)
    bits = {i: packed_bits(model.graph.tensors[i]) for i in values}
    packed = {i: pack_integers(a, bits[i]) for i, a in values.items() if bits[i]}
    return {**values, **packed, **others}, {**new, **quantizations}


def _stored_bias(
    model: Model, layer: tuple[int, int, int], bias: Array, s_x: Array, s_w: Array
) -> tuple[Array, Quantization]:
    """Returns the integers of a bias, and their quantization.

    The file's integers stay where scales and bias are those of the file, because float32 does not
    hold all integers of 32 bits.

    Args:
        model: the model.
        layer: input, weights and bias of the layer.
        bias: real numbers of the bias.
        s_x, s_w: the new scales of the input and of the weights.
    """
    x, w, b = layer
    file_x, file_w = model.quantization[x].scale, model.quantization[w].scale
    old, integers = model.quantization.get(b), model.graph.tensors[b].data
    assert integers is not None
    scale = s_x * s_w
    near = bias_quantization(old, scale)
    same = (s_w == file_w) & (s_x == file_x)
    steps = replace(near, scale=np.where(same, near.scale, scale))
    before = dequantize(integers, bias_quantization(old, file_x * file_w))
    exact = same & (bias == before)
    values = np.where(exact, integers, quantize(bias, steps, integers.dtype))
    units = (old or steps).scale.size  # a single scale in the file stays a single one
    return values, replace(steps, scale=steps.scale[:units])


def _range_quantization(numbers: Array, dtype: np.dtype[np.integer]) -> Quantization:
    """Returns the quantization of an activation from the numbers that its FAKE_QUANT reads.

    Args:
        numbers: as from `fake_quant_numbers`: the scale is number 1, the lower limit number 2.
        dtype: type of the integers.
    """
    scale, lo = numbers[1], numbers[2]
    zero_point = limits(dtype)[0] - int(lo)
    return Quantization(np.array([scale], "<f4"), np.array([zero_point], "<i8"), 0)


def bias_quantization(quantization: Quantization | None, scale: Array) -> Quantization:
    """Returns the quantization of the integers of a bias.

    Args:
        quantization: that of the file, whose scales LiteRT does not read; None if there is none.
        scale: s_x s_w; the file's scale stays where it differs from it by rounding alone.
    """
    if quantization is None:
        return Quantization(scale, np.zeros(scale.size, np.int64), 0)
    near = abs(quantization.scale - scale) <= ROUNDING * scale
    return replace(quantization, scale=np.where(near, quantization.scale, scale))


def integer_biases(model: Model) -> Iterator[tuple[int, int, int]]:
    """Yields input, weights and bias of the layers with a bias of integers, except shared ones."""
    shared = shared_biases(model)
    for node in model.graph.nodes:
        yield from (layer for layer in biases_of(model, node) if layer[2] not in shared)


def shared_biases(model: Model) -> frozenset[int]:
    """Returns the biases of several layers whose scales differ: the integers have no single value.

    Converters write one bias of zeros for all layers without a bias, and one for equal integers.
    """
    scales: dict[int, set[bytes]] = {}
    for node in model.graph.nodes:
        for x, w, b in biases_of(model, node):
            scales.setdefault(b, set()).add(layer_scale(model, x, w).tobytes())
    return frozenset(b for b, values in scales.items() if len(values) > 1)


def layer_scale(model: Model, x: int, w: int) -> Array:
    """Returns s_x s_w, the scale of the integers of a bias, for the input x and the weights w."""
    return model.quantization[x].scale * model.quantization[w].scale


def biases_of(model: Model, node: Node) -> Iterator[tuple[int, int, int]]:
    """Yields input, weights and bias of each layer of a node with a bias of integers."""
    graph = model.graph
    for layer in (SVDF_LAYER,) if node.op == SVDF else layers_of(node.op):
        if len(node.inputs) <= layer.b:
            continue
        x, w, b = (node.inputs[k] for k in (layer.x, layer.w, layer.b))
        bias = graph.tensors[b] if b != ABSENT else None
        integers = bias is not None and bias.data is not None and bias.spec.dtype.kind == "i"
        scaled = {x, w} <= model.quantization.keys()
        if integers and scaled and model.quantization[x].scale.size == 1:  # others are refused
            yield x, w, b
