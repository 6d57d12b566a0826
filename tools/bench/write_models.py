"""Writes networks as Circle and TFLite, for odt, onert and LiteRT.

Operators are those of converters: normalizations and gates as tico writes them, attention as
converted from Keras.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from model_builder import ModelBuilder

from bench.networks import NETWORKS, SHIPPED
from bench.networks.layers import Array, Layer, Network
from bench.work import Work
from bench.write_sequences import write_attention, write_recurrent
from bench.writer import Writer

FUSED = {"relu": 1, "relu6": 3}  # of the schema
FUSING = ("conv", "volume", "depthwise", "dense", "add", "mul")
EPSILON = 1e-5
Weights = dict[str, Array]


def write(net: Network, path: Path, batch: int = 1) -> None:
    """Writes one file, by its suffix: with a SOFTMAX at the end if the loss is cross-entropy."""
    model = ModelBuilder(path.suffix[1:])
    dtype = "int32" if net.vocabulary else "float32"
    tensors = {-1: model.add_input((batch, *net.input), dtype)}
    for k, (layer, weights) in enumerate(zip(net.layers, net.draw(), strict=True)):
        w = Writer(model, batch, f"layer{k}")
        y = WRITERS[layer.kind](w, net, layer, weights, [tensors[s] for s in layer.sources])
        tensors[k] = (
            y if layer.kind in FUSING and layer.activation in FUSED else _activate(w, layer, y)
        )
    y = tensors[net.last]
    if net.loss in ("cce", "scce"):
        y = model.add_operator("SOFTMAX", [y], (batch, *net.output), beta=1.0)
    model.write(path, y)


def _fused(layer: Layer) -> dict[str, Any]:
    return {"fused_activation_function": FUSED.get(layer.activation, 0)}


def _window(layer: Layer) -> dict[str, Any]:
    return {
        "padding": 0 if layer.same else 1,
        "stride_w": layer.stride,
        "stride_h": layer.stride,
    }


def _conv(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    if layer.causal:
        height, width, channels = net.shape_of(layer.sources[0])
        zeros = w.model.add_constant(np.array([(0, 0), layer.pads[:2], (0, 0), (0, 0)], np.int32))
        x = [w.add("PAD", [*x, zeros], (height + layer.pads[0], width, channels))]
    x = [*x, w.weight("w", weights["w"]), w.weight("b", weights["b"])]
    options = {**_window(layer), **_fused(layer)}
    if layer.dilation > 1:
        options["dilation_h_factor"] = layer.dilation
    if layer.kind == "conv":
        return w.add("CONV_2D", x, layer.shape, **options)
    multiplier = layer.shape[2] // net.shape_of(layer.sources[0])[2]
    return w.add("DEPTHWISE_CONV_2D", x, layer.shape, depth_multiplier=multiplier, **options)


def _volume(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    x = [*x, w.weight("w", weights["w"]), w.weight("b", weights["b"])]
    strides = {"stride_d": layer.stride, **_window(layer)}
    return w.add("CONV_3D", x, layer.shape, **strides, **_fused(layer))


def _max(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    return w.add("REDUCE_MAX", [*x, w.constant([1])], layer.shape, keep_dims=False)


def _swap(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    return w.transpose(x[0], (0, 2, 1), layer.shape)


def _half(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    height, width, channels = layer.shape
    begin, size = (0, 0, 0, layer.part * channels), (-1, height, width, channels)
    return w.add("SLICE", [*x, w.constant(begin), w.constant(size)], layer.shape)


def _shuffle(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    height, width, channels = layer.shape
    y = w.reshape(x[0], (height, width, 2, channels // 2))
    y = w.transpose(y, (0, 1, 2, 4, 3), (height, width, channels // 2, 2))
    return w.reshape(y, layer.shape)


def _transposed(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    shape = w.constant((w.batch, *layer.shape))
    parts = [shape, w.weight("w", weights["w"]), *x, w.weight("b", weights["b"])]
    return w.add("TRANSPOSE_CONV", parts, layer.shape, **_window(layer))


def _dense(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    x = [*x, w.weight("w", weights["w"]), w.weight("b", weights["b"])]
    keep = len(layer.shape) > 1
    return w.add("FULLY_CONNECTED", x, layer.shape, keep_num_dims=keep, **_fused(layer))


def _pool(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    kind = {"max_pool": "MAX_POOL_2D", "mean_pool": "AVERAGE_POOL_2D"}[layer.kind]
    size = {"filter_height": layer.size[0], "filter_width": layer.size[1]}
    return w.add(kind, x, layer.shape, **_window(layer), **size)


def _mean(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    rank = len(net.shape_of(layer.sources[0]))
    return w.mean(x[0], range(1, rank), layer.shape, keep=len(layer.shape) > 1)


def _reshape(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    return w.reshape(x[0], layer.shape)


def _binary(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    return w.add(layer.kind.upper(), x, layer.shape, **_fused(layer))


def _offset(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    return w.add("ADD", [*x, w.weight("w", weights["w"][None])], layer.shape)


def _concat(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    return w.add("CONCATENATION", x, layer.shape, axis=len(layer.shape))


def _upsample(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    size = w.constant(layer.shape[:2])
    return w.add("RESIZE_NEAREST_NEIGHBOR", [*x, size], layer.shape)


def _embedding(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    return w.add("GATHER", [w.weight("w", weights["w"]), *x], layer.shape, axis=0)


def _prelu(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    return w.add("PRELU", [*x, w.weight("w", weights["w"][None, None])], layer.shape)


def _norm(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    """INSTANCE_NORM in Circle; else the differences from means, scaled."""
    *image, channels = layer.shape
    gamma, beta = weights["w"], weights["b"]
    if not layer.groups:
        x = [w.normalize(x[0], layer.shape, (len(layer.shape),), EPSILON)]
        return w.scale_and_shift(x[0], layer.shape, gamma, beta)
    if layer.groups == channels:
        if w.circle:
            x = [*x, w.weight("w", gamma), w.weight("b", beta)]
            return w.add("INSTANCE_NORM", x, layer.shape, epsilon=EPSILON)
        x = [w.normalize(x[0], layer.shape, (1, 2), EPSILON)]
        return w.scale_and_shift(x[0], layer.shape, gamma, beta)
    first = (channels, *image)  # the channels of a group lie side by side
    y = w.transpose(x[0], (0, 3, 1, 2), first)
    rows = (layer.groups, int(np.prod(layer.shape)) // layer.groups)
    y = w.normalize(w.reshape(y, rows), rows, (2,), EPSILON)
    y = w.reshape(y, first)
    y = w.scale_and_shift(y, first, gamma[:, None, None], beta[:, None, None])
    return w.transpose(y, (0, 2, 3, 1), layer.shape)


def _attention(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    return write_attention(w, layer, x)


def _recurrent(w: Writer, net: Network, layer: Layer, weights: Weights, x: list[int]) -> int:
    return write_recurrent(w, layer, net.shape_of(layer.sources[0]), weights, x[0])


WRITERS: dict[str, Callable[[Writer, Network, Layer, Weights, list[int]], int]] = {
    "conv": _conv,
    "volume": _volume,
    "depthwise": _conv,
    "transposed": _transposed,
    "dense": _dense,
    "max_pool": _pool,
    "mean_pool": _pool,
    "mean": _mean,
    "max": _max,
    "swap": _swap,
    "half": _half,
    "shuffle": _shuffle,
    "flatten": _reshape,
    "tokens": _reshape,
    "add": _binary,
    "mul": _binary,
    "offset": _offset,
    "concat": _concat,
    "upsample": _upsample,
    "embedding": _embedding,
    "prelu": _prelu,
    "norm": _norm,
    "attention": _attention,
    "lstm": _recurrent,
    "gru": _recurrent,
}


def _activate(w: Writer, layer: Layer, x: int) -> int:
    """Adds an activation that no operator has fused."""
    shape: Sequence[int] = layer.shape
    if layer.activation == "swish":
        return w.add("MUL", [x, w.add("LOGISTIC", [x], shape)], shape)
    if layer.activation == "hard_sigmoid":  # as Keras has it: the clamped x + 3, over 6
        three, sixth = (w.model.add_constant(np.float32(v)) for v in (3, 1 / 6))
        x = w.add("ADD", [x, three], shape, fused_activation_function=FUSED["relu6"])
        return w.add("MUL", [x, sixth], shape)
    names = {"relu": "RELU", "relu6": "RELU6", "hard_swish": "HARD_SWISH", "gelu": "GELU",
             "sigmoid": "LOGISTIC", "tanh": "TANH"}  # fmt: skip
    return w.add(names[layer.activation], [x], shape) if layer.activation else x


def code_mark() -> str:
    """Returns a hash of the code that makes files of models."""
    here, digest = Path(__file__).parent, hashlib.sha256()
    patterns = "networks/*.py", "write*.py", "measure_*.py", "../model_builder.py"
    for path in sorted(path for pattern in patterns for path in here.glob(pattern)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def write_all(folder: Path, works: Iterable[Work], places: Sequence[Path]) -> dict[str, str]:
    """Writes the files of some rows, if this code has not made them, or copies them.

    A network is written as Circle for a batch of 1, and as TFLite for the row's batch, because
    LiteRT does not resize the states and constant shapes in a file.

    Args:
        places: folders in which the shipped files are searched.

    Returns:
        Rows whose file is in none of the places, with the reason.
    """
    if not (folder / code_mark()).exists():  # the files of other networks, or none
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / code_mark()).touch()
    absent = {}
    for work in works:
        if work.shipped:
            candidates = [p / SHIPPED[work.network].file for p in places]
            candidates = [path for path in candidates if path.exists()]
            if candidates:
                shutil.copy(candidates[0], folder / f"{work.network}.tflite")
            else:
                absent[work.name] = f"{SHIPPED[work.network].file} is in no folder of models"
            continue
        for name, batch in ((f"{work.network}.circle", 1),
                            (f"{work.network}-{work.batch}.tflite", work.batch)):  # fmt: skip
            if not (folder / name).exists():
                write(NETWORKS[work.network](), folder / name, batch)
    return absent
