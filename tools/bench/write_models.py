"""Writes the networks as Circle and TFLite, for odt, onert and LiteRT."""

from pathlib import Path
from typing import Any

import numpy as np
from model_builder import ModelBuilder

from bench.networks import NETWORKS, Layer, Network

FUSED = {"relu": 1, "relu6": 3}  # of the schema


def write(net: Network, path: Path) -> None:
    """One file, by its suffix: batch 1, with a SOFTMAX at the end."""
    model = ModelBuilder(path.suffix[1:])
    made = {-1: model.add_input((1, *net.input))}
    for k, layer in enumerate(net.layers):
        inputs = [made[s] for s in layer.sources]
        if layer.w is not None and layer.b is not None:
            inputs += [model.add_constant(layer.w, f"w{k}"), model.add_constant(layer.b, f"b{k}")]
        made[k] = _activation(model, layer, _operator(model, layer, inputs))
    y = model.add_operator("SOFTMAX", [made[len(net.layers) - 1]], (1, net.classes), beta=1.0)
    model.write(path, y)


def _operator(model: ModelBuilder, layer: Layer, inputs: list[int]) -> int:
    shape = (1, *layer.shape)
    activation: dict[str, Any] = {"fused_activation_function": FUSED.get(layer.activation, 0)}
    window: dict[str, Any] = {
        "padding": 0 if layer.same else 1,
        "stride_w": layer.stride,
        "stride_h": layer.stride,
    }
    if layer.kind == "conv":
        return model.add_operator("CONV_2D", inputs, shape, **window, **activation)
    if layer.kind == "depthwise":
        return model.add_operator(
            "DEPTHWISE_CONV_2D", inputs, shape, depth_multiplier=1, **window, **activation
        )
    if layer.kind in ("max_pool", "mean_pool"):
        kind = {"max_pool": "MAX_POOL_2D", "mean_pool": "AVERAGE_POOL_2D"}[layer.kind]
        size: dict[str, Any] = {"filter_height": layer.size[0], "filter_width": layer.size[1]}
        return model.add_operator(kind, inputs, shape, **window, **size)
    if layer.kind == "mean":
        axes = model.add_constant(np.array([1, 2], np.int32))
        return model.add_operator("MEAN", [*inputs, axes], shape, keep_dims=len(layer.shape) > 1)
    if layer.kind == "flatten":
        target = [-1, *layer.shape]
        inputs = [*inputs, model.add_constant(np.array(target, np.int32))]
        return model.add_operator("RESHAPE", inputs, shape, new_shape=target)
    kind = {"add": "ADD", "mul": "MUL", "dense": "FULLY_CONNECTED"}[layer.kind]
    return model.add_operator(kind, inputs, shape, **activation)


def _activation(model: ModelBuilder, layer: Layer, x: int) -> int:
    """What no operator has fused."""
    shape = (1, *layer.shape)
    if layer.activation == "hard_swish":
        return model.add_operator("HARD_SWISH", [x], shape)
    if layer.activation == "hard_sigmoid":  # as Keras has it: the clamped x + 3, over 6
        three, sixth = (model.add_constant(np.float32(v)) for v in (3, 1 / 6))
        x = model.add_operator("ADD", [x, three], shape, fused_activation_function=FUSED["relu6"])
        return model.add_operator("MUL", [x, sixth], shape)
    return x


def write_all(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in NETWORKS.items():
        for suffix in (".circle", ".tflite"):
            path = folder / (name + suffix)
            if not path.exists():
                write(make(), path)
