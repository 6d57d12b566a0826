"""LiteRT as judge of every integer that odt computes for quantized files."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.integer_files import QuantizedBuilder, full_range, odt_integers
from support.litert_integers import beyond_one_step, litert_integers
from support.paths import MODELS

from odt.core.formats.reader import read_model

Build = Callable[[QuantizedBuilder], int]
SHIPPED = ("mlperf-tiny-kws-dscnn-int8", "mlperf-tiny-resnet8-cifar10-int8")
MOST = 1e-3  # fraction of values that may differ by more than one step
RELU, RELU_N1_TO_1, RELU6 = 1, 2, 3


@pytest.mark.parametrize("name", SHIPPED)
def test_every_tensor_of_a_shipped_file_is_that_of_litert(name: str) -> None:
    path = MODELS / f"{name}.tflite"
    inputs = full_range(read_model(path), 16)
    ours, theirs = odt_integers(path, inputs), litert_integers(path, inputs)
    assert len(ours) == len(read_model(path).graph.nodes)
    for i, values in ours.items():
        same = np.mean(values.reshape(-1) == theirs[i].reshape(-1))
        assert same > 0.999, i


def conv(
    kernel: int = 3,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    activation: int = 0,
    channels: int = 5,
    units: int = 8,
    per_channel: bool = True,
    bias: bool = True,
) -> Build:
    def build(b: QuantizedBuilder) -> int:
        x = b.activation((1, 9, 8, channels), 0.02, -7)
        scales = (0.001 * np.arange(1, units + 1)).tolist() if per_channel else [0.004]
        w = b.weights((units, kernel, kernel, channels), scales)
        biases = [b.bias(units, [0.02 * s for s in scales])] if bias else []
        h, v = ((n - (kernel - 1) * dilation * padding - 1) // stride + 1 for n in (9, 8))
        return b.operator(
            "CONV_2D",
            (x, w, *biases),
            (1, h, v, units),
            0.03,
            4,
            padding=padding,
            stride_h=stride,
            stride_w=stride,
            dilation_h_factor=dilation,
            dilation_w_factor=dilation,
            fused_activation_function=activation,
        )

    return build


def depthwise(multiplier: int = 1, stride: int = 1, padding: int = 0, activation: int = 0) -> Build:
    def build(b: QuantizedBuilder) -> int:
        x = b.activation((1, 9, 8, 6), 0.02, 11)
        scales = (0.001 * np.arange(1, 6 * multiplier + 1)).tolist()
        w = b.weights((1, 3, 3, 6 * multiplier), scales, 3)
        h, v = ((n - 2 * padding - 1) // stride + 1 for n in (9, 8))
        return b.operator(
            "DEPTHWISE_CONV_2D",
            (x, w, b.bias(6 * multiplier, [0.02 * s for s in scales])),
            (1, h, v, 6 * multiplier),
            0.012,
            -20,
            padding=padding,
            stride_h=stride,
            stride_w=stride,
            dilation_h_factor=1,
            dilation_w_factor=1,
            depth_multiplier=multiplier,
            fused_activation_function=activation,
        )

    return build


def dense(activation: int = 0, bias: bool = True, keep: bool = False, units: int = 10) -> Build:
    def build(b: QuantizedBuilder) -> int:
        x = b.activation((1, 3, 50) if keep else (1, 50), 0.05, 3)
        w = b.weights((units, 50), [0.003])
        biases = [b.bias(units, [0.05 * 0.003])] if bias else [-1]
        return b.operator(
            "FULLY_CONNECTED",
            (x, w, *biases),
            (1, 3, units) if keep else (1, units),
            0.1,
            -9,
            keep_num_dims=keep,
            fused_activation_function=activation,
        )

    return build


def binary(op: str, scales: tuple[float, float, float], activation: int = 0) -> Build:
    def build(b: QuantizedBuilder) -> int:
        one, two = b.activation((1, 6, 7), scales[0], 9), b.activation((1, 6, 7), scales[1], -30)
        return b.operator(
            op, (one, two), (1, 6, 7), scales[2], 5, fused_activation_function=activation
        )

    return build


def with_constant(op: str, shape: tuple[int, ...]) -> Build:
    def build(b: QuantizedBuilder) -> int:
        x, c = b.activation((1, 6, 7), 0.1, 9), b.weights(shape, [0.02], zero=4)
        return b.operator(op, (x, c), (1, 6, 7), 0.11, 5)

    return build


def pool(window: int, stride: int, padding: int, activation: int = 0) -> Build:
    def build(b: QuantizedBuilder) -> int:
        x = b.activation((1, 9, 8, 5), 0.02, -7)
        n = [-(-k // stride) if padding == 0 else (k - window) // stride + 1 for k in (9, 8)]
        return b.operator(
            "AVERAGE_POOL_2D",
            (x,),
            (1, *n, 5),
            0.02,
            -7,
            padding=padding,
            filter_width=window,
            filter_height=window,
            stride_w=stride,
            stride_h=stride,
            fused_activation_function=activation,
        )

    return build


def unsigned_softmax(b: QuantizedBuilder) -> int:
    """Probabilities of int16 from its smallest integer on, and of int32: a keyword spotter's."""
    x = b.activation((1, 12), 0.1, 5)
    y = b.operator("SOFTMAX", (x,), (1, 12), 2**-16, -(2**15), "int16", beta=1.0)
    return b.operator("QUANTIZE", (y,), (1, 12), 2**-15, 0, "int32")


def softmax(scale: float, classes: int = 12, beta: float = 1.0) -> Build:
    def build(b: QuantizedBuilder) -> int:
        x = b.activation((1, classes), scale, 20)
        return b.operator("SOFTMAX", (x,), (1, classes), 1 / 256, -128, beta=beta)

    return build


def requantized(scale: float, zero: int, dtype: str = "int8") -> Build:
    def build(b: QuantizedBuilder) -> int:
        x = b.activation((1, 50), 0.05, 3)
        return b.operator("QUANTIZE", (x,), (1, 50), scale, zero, dtype)

    return build


def from_float(b: QuantizedBuilder) -> int:
    x = b.add_input((1, 50))
    q = b.operator("QUANTIZE", (x,), (1, 50), 0.02, -3)
    return b.add_operator("DEQUANTIZE", (q,), (1, 50))


CASES: dict[str, Build] = {
    "conv": conv(),
    "conv, valid": conv(padding=1, activation=RELU),
    "conv, stride": conv(stride=2, activation=RELU6),
    "conv, dilation": conv(dilation=2, activation=RELU_N1_TO_1),
    "conv, 1x1": conv(kernel=1, channels=17, units=33),
    "conv, one scale": conv(per_channel=False),
    "conv, many channels": conv(channels=130, units=3),
    "depthwise": depthwise(),
    "depthwise, valid, stride": depthwise(padding=1, stride=2, activation=RELU),
    "depthwise, multiplier": depthwise(multiplier=3),
    "dense": dense(),
    "dense, relu": dense(RELU),
    "dense without bias": dense(bias=False),
    "dense, three axes": dense(keep=True),
    "add": binary("ADD", (0.1, 0.03, 0.12)),
    "add, relu": binary("ADD", (0.02, 0.02, 0.02), RELU),
    "add, far scales": binary("ADD", (1.3, 0.004, 1.2)),
    "add, constant": with_constant("ADD", (7,)),
    "subtract": binary("SUB", (0.1, 0.03, 0.12)),
    "multiply": binary("MUL", (0.1, 0.03, 0.05), RELU),
    "multiply, constant": with_constant("MUL", (1, 6, 7)),
    "pool": pool(3, 2, 1),
    "pool, padding": pool(3, 1, 0, RELU),
    "softmax": softmax(0.1),
    "softmax, flat": softmax(0.004, 5),
    "softmax, sharp": softmax(1.7, 40, beta=0.5),
    "softmax, unsigned": unsigned_softmax,
    "requantize": requantized(0.03, -5),
    "requantize to uint8": requantized(0.05, 131, "uint8"),
    "float ends": from_float,
}


@pytest.mark.parametrize("name", CASES)
def test_the_integers_of_an_operator_are_those_of_litert(name: str, tmp_path: Path) -> None:
    builder, path = QuantizedBuilder(), tmp_path / "one.tflite"
    builder.write(path, CASES[name](builder))
    inputs = full_range(read_model(path), 32)
    found = beyond_one_step(path, inputs)
    assert found
    assert max(found.values()) <= MOST
