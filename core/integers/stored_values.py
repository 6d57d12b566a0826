"""Trained weights of the fake-quantized graph as integers, in the types of the file."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from odt.core.model.dequantize import DequantizedGraph, as_stored
from odt.core.model.graph import ABSENT, Node
from odt.core.model.int4 import is_int4, pack_int4
from odt.core.model.model import Model
from odt.core.model.quantization_rules import SVDF_LAYER, layers_of
from odt.core.model.variables import SVDF
from odt.kernels.geometry.quantize import Quantization, dequantize, limits, quantize
from odt.kernels.rows.opdef import Array

ROUNDING = 0.01  # of a scale
MAX_BIAS = 1_100_000_000  # of the integers of a bias, half of what 32 bits hold


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
        UnsupportedError: for weights beside float activations whose zero point is not 0.
    """
    graph = dequantized.graph
    values: dict[int, Array] = {}
    new: dict[int, Quantization] = {}
    for i, real in weights.items():
        quantization = graph.tensors[i].quantization
        if i in dequantized.ranges:
            moved = _of_numbers(real, model.graph.tensors[dequantized.ranges[i][0]].spec.dtype)
            new |= dict.fromkeys(dequantized.ranges[i], moved)
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
        in_file = model.quantization[x].scale, model.quantization[w].scale
        least = abs(bias) / (s_x * np.float32(MAX_BIAS))  # so that 32 bits hold the bias
        if (least > new.get(w, first).scale).any():
            trained = weights.get(w, stored.real)
            assert trained is not None
            values[w], new[w] = stored.quantization.quantize(trained, least)
        scale = s_x * new.get(w, first).scale
        before = bias_quantization(model.quantization.get(b), scale)
        same = (new.get(w, first).scale == in_file[1]) & (s_x == in_file[0])
        steps = replace(before, scale=np.where(same, before.scale, scale))
        integers = model.graph.tensors[b].data
        assert integers is not None
        in_steps = bias_quantization(model.quantization.get(b), np.multiply(*in_file))
        begun = dequantize(integers, in_steps)
        exact = same & (bias == begun)  # float32 does not hold all integers of 32 bits
        values[b] = np.where(exact, integers, quantize(bias, steps, integers.dtype))
        places = model.quantization.get(b, steps).scale.size  # one for many units changes nothing
        new[b] = replace(steps, scale=steps.scale[:places])
    rest = {i: a for i, a in weights.items() if dequantized.stored.get(i, i) not in values}
    others, quantizations = as_stored(model, dequantized, rest)
    packed = {i: pack_int4(a) for i, a in values.items() if is_int4(model.graph.tensors[i])}
    return {**values, **packed, **others}, {**new, **quantizations}


def _of_numbers(numbers: Array, dtype: np.dtype[np.integer]) -> Quantization:
    """The quantization of an activation from the numbers that its FAKE_QUANT reads."""
    zero_point = limits(dtype)[0] - int(numbers[2])
    return Quantization(numbers[1:2].astype("<f4"), np.array([zero_point], "<i8"), 0)


def bias_quantization(quantization: Quantization | None, scale: Array) -> Quantization:
    """Returns the quantization of a bias by which its integers count.

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
    """Returns the biases of several layers whose scales differ: the integers have no one value.

    Converters write one bias for all layers without, and for those of equal integers.
    """
    scales: dict[int, set[bytes]] = {}
    for node in model.graph.nodes:
        for x, w, b in biases_of(model, node):
            scales.setdefault(b, set()).add(layer_scale(model, x, w).tobytes())
    return frozenset(b for b, values in scales.items() if len(values) > 1)


def layer_scale(model: Model, x: int, w: int) -> Array:
    """Returns s_x s_w, in which the integers of a bias count, for the input x and the weights w."""
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
        if integers and {x, w} <= model.quantization.keys():
            yield x, w, b
