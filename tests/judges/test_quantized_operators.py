"""LiteRT as judge of quantized operators, one file for each."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.integer_files import QuantizedBuilder, full_range, odt_integers
from support.judges import litert
from support.litert_integers import beyond_one_step, litert_integers

from odt.core.formats.reader import read_model

Build = Callable[[QuantizedBuilder], int]
MOST = 1e-3  # fraction of values that may differ by more than one step
SHAPE = (1, 6, 8, 5)
LOGISTIC = (1 / 256, -128)  # scale and zero point that TFLite demands
TANH = (1 / 128, 0)


def unary(
    op: str,
    scale: float = 0.05,
    zero: int = 3,
    made: tuple[float, int] = (0.04, -7),
    shape: Sequence[int] = SHAPE,
    result: Sequence[int] | None = None,
    statics: Sequence[object] = (),
    dtype: str = "int8",
    **options: Any,
) -> Build:
    """An operator with one activation, and constants after it."""

    def build(b: QuantizedBuilder) -> int:
        x = b.activation(shape, scale, zero, dtype)
        inputs = [x, *(b.add_constant(np.asarray(a, np.int32)) for a in statics)]
        return b.operator(op, inputs, result or shape, *made, dtype, **options)

    return build


def moving(op: str, result: Sequence[int], *statics: object, **options: Any) -> Build:
    """An operator that moves values, without another quantization."""
    return unary(
        op, 0.05, 3, (0.05, 3), SHAPE, result, [np.asarray(a, np.int32) for a in statics], **options
    )


def binary(
    op: str,
    scales: tuple[float, float, float],
    zeros: tuple[int, int, int] = (9, -30, 5),
    shapes: tuple[Sequence[int], Sequence[int]] = (SHAPE, SHAPE),
    result: Sequence[int] = SHAPE,
    dtype: str = "int8",
    **options: Any,
) -> Build:
    def build(b: QuantizedBuilder) -> int:
        inputs = [b.activation(shapes[k], scales[k], zeros[k], dtype) for k in range(2)]
        return b.operator(op, inputs, result, scales[2], zeros[2], dtype, **options)

    return build


def concatenation(
    scales: Sequence[float], axis: int, result: Sequence[int], dtype: str = "int8"
) -> Build:
    def build(b: QuantizedBuilder) -> int:
        inputs = [b.activation(SHAPE, scale, 5, dtype) for scale in scales[:-1]]
        return b.operator("CONCATENATION", inputs, result, scales[-1], 5, dtype, axis=axis)

    return build


def resized(dtype: str, size: tuple[int, int], out: tuple[int, int], **options: Any) -> Build:
    made = (0.05, 0 if dtype == "int16" else 3)
    images, results = (1, *size, 5), (1, *out, 5)
    return unary("RESIZE_BILINEAR", *made, made, images, results, [out], dtype, **options)


def through_batches(b: QuantizedBuilder) -> int:
    x, block = b.activation(SHAPE, 0.05, 3), b.add_constant(np.array([2, 2], np.int32))
    pads = b.add_constant(np.array([[1, 1], [0, 0]], np.int32))
    y = b.operator("SPACE_TO_BATCH_ND", (x, block, pads), (4, 4, 4, 5), 0.05, 3)
    return b.operator("BATCH_TO_SPACE_ND", (y, block, pads), SHAPE, 0.05, 3)


def packed(b: QuantizedBuilder) -> int:
    inputs = b.activation((1, 5), 0.1), b.activation((1, 5), 0.1)
    return b.operator("PACK", inputs, (1, 2, 5), 0.1, 0, "int8", axis=1, values_count=2)


def prelu(b: QuantizedBuilder) -> int:
    x, alpha = b.activation(SHAPE, 0.05, 3), b.weights((1, 1, 5), [0.004])
    return b.operator("PRELU", (x, alpha), SHAPE, 0.04, -7)


def pool(b: QuantizedBuilder) -> int:
    x = b.activation(SHAPE, 0.05, 3)
    window, stride = {"filter_width": 3, "filter_height": 2}, {"stride_w": 2, "stride_h": 2}
    y = (1, 3, 4, 5)
    return b.operator("MAX_POOL_2D", (x,), y, 0.05, 3, "int8", **window, **stride)


def transposed(b: QuantizedBuilder) -> int:
    x = b.activation((1, 4, 5, 6), 0.05, 3)
    scales = (0.001 * np.arange(1, 4)).tolist()
    w, bias = b.weights((3, 3, 3, 6), scales), b.bias(3, [0.05 * s for s in scales])
    target = b.add_constant(np.array([1, 8, 10, 3], np.int32))
    stride = {"stride_w": 2, "stride_h": 2}
    return b.operator(
        "TRANSPOSE_CONV", (target, w, x, bias), (1, 8, 10, 3), 0.2, -5, "int8", **stride
    )


def layer(op: str, dtype: str, weights: str = "int8", zero: int = 0) -> Build:
    """A layer of other types than int8: uint8 with one scale, int16 with int64 biases."""

    def build(b: QuantizedBuilder) -> int:
        middle, filters = (131 if dtype == "uint8" else 0), {"CONV_2D": (4, 3, 3, 5)}
        x = b.activation((1, 40) if op == "FULLY_CONNECTED" else SHAPE, 0.05, middle, dtype)
        shape = {"DEPTHWISE_CONV_2D": (1, 3, 3, 5), "FULLY_CONNECTED": (4, 40), **filters}[op]
        w = b.weights(shape, [0.004], dtype=weights, zero=zero)
        units = 5 if op == "DEPTHWISE_CONV_2D" else 4
        wide = "int64" if dtype == "int16" else "int32"
        bias = b.bias(units, [0.05 * float(np.float32(0.004))], wide)
        made = (1, 4) if op == "FULLY_CONNECTED" else (1, 6, 8, units)
        windows = {} if op == "FULLY_CONNECTED" else {"stride_w": 1, "stride_h": 1}
        windows |= {"depth_multiplier": 1} if op == "DEPTHWISE_CONV_2D" else {}
        return b.operator(op, (x, w, bias), made, 0.09, middle, dtype, **windows)

    return build


def grouped(
    dtype: str, groups: int, units: int, channels: int, weights: str = "int8", zero: int = 0
) -> Build:
    """CONV_2D whose filters read groups of channels; scales for each unit, or one for uint8."""

    def build(b: QuantizedBuilder) -> int:
        middle = {"uint8": 131, "int8": -5, "int16": 0}[dtype]
        x = b.activation((1, 6, 5, channels * groups), 0.05, middle, dtype)
        scales = [0.004] if weights == "uint8" else (0.001 * np.arange(1, units + 1)).tolist()
        w = b.weights((units, 3, 3, channels), scales, dtype=weights, zero=zero)
        wide = "int64" if dtype == "int16" else "int32"
        bias = b.bias(units, [0.05 * float(np.float32(s)) for s in scales], wide)
        window = {"stride_w": 2, "stride_h": 1}
        return b.operator("CONV_2D", (x, w, bias), (1, 6, 3, units), 0.2, middle, dtype, **window)

    return build


def four_bits(op: str) -> Build:
    """A layer with int4 weights."""

    def build(b: QuantizedBuilder) -> int:
        y = layer(op, "int8")(b)
        w = b.graph.operators[0].inputs[1]
        count = int(np.prod(b.graph.tensors[w].shape))
        packed = b.rng.integers(0, 256, -(-count // 2)).astype(np.uint8)
        packed[packed % 16 == 8] += 1  # -8 is not used
        packed[packed // 16 == 8] += 16
        b.graph.tensors[w].buffer = b.add_buffer(packed.tobytes())
        b.graph.tensors[w].type = 17
        b.quantize(w, [0.07], [0])
        b.quantize(b.graph.operators[0].inputs[2], [0.05 * float(np.float32(0.07))], [0])
        return y

    return build


LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
TYPES: dict[str, Build] = {
    **{f"{op}, uint8": layer(op, "uint8", "uint8", 119) for op in LAYERS},
    **{f"{op}, uint8 around 128": layer(op, "uint8", "uint8", 128) for op in LAYERS},
    **{f"{op}, int4": four_bits(op) for op in LAYERS[:1] + LAYERS[2:]},
    "add, uint8": binary("ADD", (0.1, 0.03, 0.12), (130, 90, 128), dtype="uint8"),
    "multiply, uint8": binary("MUL", (0.1, 0.03, 0.3), (130, 90, 128), dtype="uint8"),
    "logistic, uint8": unary("LOGISTIC", 0.05, 128, (1 / 256, 0), dtype="uint8"),
    "softmax, uint8": unary("SOFTMAX", 0.05, 128, (1 / 256, 0), (1, 20), dtype="uint8", beta=1.0),
    "relu, int16": unary("RELU", 1e-4, 0, (1e-4, 0), dtype="int16"),
}
CASES: dict[str, Build] = {
    **TYPES,
    "relu": unary("RELU"),
    "relu6": unary("RELU6"),
    "relu_n1_to_1": unary("RELU_N1_TO_1"),
    "leaky relu": unary("LEAKY_RELU", alpha=0.2),
    "prelu": prelu,
    "elu": unary("ELU"),
    "gelu": unary("GELU"),
    "hard swish": unary("HARD_SWISH"),
    "logistic": unary("LOGISTIC", made=LOGISTIC),
    "tanh": unary("TANH", made=TANH),
    "exp": unary("EXP", 0.02, 3, (0.05, -128)),
    "log": unary("LOG", 0.05, -128, (0.02, 10)),
    "sqrt": unary("SQRT", 0.05, -128, (0.02, -128)),
    "rsqrt": unary("RSQRT", 0.05, -128, (0.02, -128)),
    "abs": unary("ABS"),
    "log softmax": unary("LOG_SOFTMAX", 0.05, 3, (16 / 256, 127)),
    "l2 normalization": unary("L2_NORMALIZATION", 0.05, 3, (1 / 128, 0)),
    "mean": unary(
        "MEAN",
        shape=SHAPE,
        result=(1, 1, 1, 5),
        statics=[np.array([1, 2], np.int32)],
        keep_dims=True,
    ),
    "mean, one axis": unary("MEAN", result=(1, 8, 5), statics=[[1]]),
    "sum": unary("SUM", made=(0.4, 5), result=(1, 8, 5), statics=[[1]]),
    "reduce max": moving("REDUCE_MAX", (1, 8, 5), [1]),
    "reduce min": moving("REDUCE_MIN", (1, 6, 8), [3]),
    "maximum": binary("MAXIMUM", (0.05, 0.05, 0.05), (3, 3, 3)),
    "minimum": binary("MINIMUM", (0.05, 0.05, 0.05), (3, 3, 3)),
    "squared difference": binary("SQUARED_DIFFERENCE", (0.05, 0.04, 0.3), (9, -30, -128)),
    "batch matmul": binary(
        "BATCH_MATMUL", (0.05, 0.04, 0.2), shapes=((1, 6, 8), (1, 8, 7)), result=(1, 6, 7)
    ),
    "max pool": pool,
    "transpose conv": transposed,
    "pad": moving("PAD", (1, 8, 8, 5), [[0, 0], [1, 1], [0, 0], [0, 0]]),
    "mirror pad": moving("MIRROR_PAD", (1, 8, 8, 5), [[0, 0], [1, 1], [0, 0], [0, 0]]),
    "transpose": moving("TRANSPOSE", (1, 5, 6, 8), [0, 3, 1, 2]),
    "slice": moving("SLICE", (1, 3, 8, 2), [0, 2, 0, 1], [1, 3, 8, 2]),
    "strided slice": moving(
        "STRIDED_SLICE", (1, 2, 8, 5), [0, 1, 0, 0], [1, 5, 8, 5], [1, 2, 1, 1]
    ),
    "gather": moving("GATHER", (1, 3, 8, 5), [0, 5, 2], axis=1),
    "pack": lambda b: b.operator(
        "PACK",
        (b.activation((1, 5), 0.1), b.activation((1, 5), 0.1)),
        (1, 2, 5),
        0.1,
        axis=1,
        values_count=2,
    ),
    "expand dims": moving("EXPAND_DIMS", (1, 1, 6, 8, 5), 1),
    "squeeze": unary("SQUEEZE", 0.05, 3, (0.05, 3), (1, 1, 5), (1, 5), squeeze_dims=[1]),
    "tile": moving("TILE", (1, 6, 16, 5), [1, 1, 2, 1]),
    "space to depth": moving("SPACE_TO_DEPTH", (1, 3, 4, 20), block_size=2),
    "depth to space": unary(
        "DEPTH_TO_SPACE", 0.05, 3, (0.05, 3), (1, 3, 4, 8), (1, 6, 8, 2), block_size=2
    ),
    "space to batch and back": through_batches,
    "resize bilinear": resized("int8", (6, 8), (12, 16), half_pixel_centers=True),
    "resize nearest": moving("RESIZE_NEAREST_NEIGHBOR", (1, 12, 16, 5), [12, 16]),
    "concatenation": concatenation((0.05, 0.05, 0.05), 3, (1, 6, 8, 10)),
    "concatenation, other scales": concatenation((0.05, 0.09, 0.08), 1, (1, 12, 8, 5), "uint8"),
}

# RESIZE_BILINEAR with distances that are no power of two; the last has more than one tile.
RESIZED: dict[str, Build] = {}
for made_of in ("int8", "uint8", "int16"):
    RESIZED |= {
        f"{made_of}, half": resized(made_of, (6, 8), (17, 13), half_pixel_centers=True),
        f"{made_of}, smaller": resized(made_of, (26, 9), (11, 4), half_pixel_centers=True),
        f"{made_of}, first": resized(made_of, (33, 33), (65, 129)),
        f"{made_of}, one": resized(made_of, (1, 1), (7, 1), align_corners=True),
        f"{made_of}, corners": resized(made_of, (33, 33), (257, 257), align_corners=True),
    }

# HARD_SWISH whose factors are above and below 1, on all bytes.
SWISHED = {
    f"{dtype}, {scale}": unary("HARD_SWISH", scale, zero, made, (1, 512), dtype=dtype)
    for dtype, zero in (("int8", -20), ("uint8", 110))
    for scale, made in ((0.004, (0.003, zero)), (0.05, (0.04, zero - 30)), (0.4, (0.5, zero)))
}
# LEAKY_RELU whose factors XNNPACK rounds, on all bytes, and one that it leaves to TFLite.
LEAKED = {
    f"leaky {dtype}, {alpha}": unary(
        "LEAKY_RELU", 0.05, zero, made, (1, 512), dtype=dtype, alpha=alpha
    )
    for dtype, zero in (("int8", -20), ("uint8", 110))
    for alpha, made in ((0.3, (0.03, zero)), (0.2, (0.09, zero - 30)), (5e-4, (0.04, zero)))
}
# SOFTMAX of 15 bits, which LiteRT interpolates.
SOFTENED = {
    f"softmax {scale}, {classes} classes": unary(
        "SOFTMAX", scale, 0, (2**-15, 0), (1, classes), dtype="int16", beta=beta
    )
    for scale, classes, beta in (
        (1e-9, 3, 1.0),
        (1e-4, 20, 0.7),
        (1e-3, 100, 1.0),
        (0.01, 1000, 1.0),
        (0.3, 2, 3.1),
        (1e-4, 1, 1.0),
    )
}
# Layers of int16, whose factors have 15 bits (31 in dense ones) and whose halves are rounded up.
SHORT = {f"{op}, int16": layer(op, "int16") for op in LAYERS}
# Sums and products of int16, also of scales that are powers of two.
SCALES = ((1e-4, 3e-4, 4e-4), (1e-3, 2e-9, 1.1e-3), (2**-13, 2**-11, 2**-11))
SUMMED: dict[str, Build] = {
    f"{op}, int16, {scales}": binary(op, scales, (0, 0, 0), dtype="int16")
    for op in ("ADD", "SUB", "MUL")
    for scales in SCALES
}
SUMMED |= {
    f"{op}, int16, broadcast": binary(
        op, SCALES[0], (0, 0, 0), (SHAPE, (1, 1, 1, 5)), dtype="int16"
    )
    for op in ("ADD", "SUB", "MUL")
}
SUMMED["ADD, int16, powers as other scales"] = binary(
    "ADD", SCALES[2], (0, 0, 0), dtype="int16", pot_scale_int16=False
)
REST = "ADD, int16, less than a block"  # which is rounded twice: many samples show a difference
SUMMED[REST] = binary("ADD", SCALES[0], (0, 0, 0), ((1, 15), (1, 15)), (1, 15), dtype="int16")
GROUPED = {
    "2 groups": grouped("int8", 2, 40, 8),  # compiled
    "2 groups, uint8": grouped("uint8", 2, 8, 8, "uint8", 119),
    "3 groups": grouped("int8", 3, 9, 6),
    "3 groups, int16": grouped("int16", 3, 9, 6),
}
EXACT = {**RESIZED, **SWISHED, **LEAKED, **SOFTENED, **SHORT, **SUMMED, **GROUPED}

REFERENCE = {"concatenation, other scales"}  # XNNPACK fails to compute them


@pytest.mark.parametrize("name", CASES)
def test_the_integers_of_an_operator_are_those_of_litert(name: str, tmp_path: Path) -> None:
    builder, path = QuantizedBuilder(), tmp_path / "one.tflite"
    builder.write(path, CASES[name](builder))
    inputs = full_range(read_model(path), 8)
    found = beyond_one_step(path, inputs, reference=name in REFERENCE)
    assert found
    assert max(found.values()) <= MOST


@pytest.mark.parametrize("name", EXACT)
def test_an_operator_has_the_bits_of_litert(name: str, tmp_path: Path) -> None:
    builder, path = QuantizedBuilder(), tmp_path / "one.tflite"
    builder.write(path, EXACT[name](builder))
    inputs = full_range(read_model(path), 2000 if name == REST else 8)
    theirs = litert_integers(path, inputs)
    ours = odt_integers(path, inputs)
    assert ours
    for i, integers in ours.items():
        assert np.array_equal(integers.reshape(theirs[i].shape), theirs[i])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("shape", "axes", "scales", "zeros"),
    [
        ((1, 16, 16, 112), (1, 2), (0.06515535, 0.00868885), (9, -5)),
        ((1, 7, 7, 32), (1, 2), (0.05, 0.05), (3, 3)),
        ((1, 6, 16), (1,), (0.05, 0.05), (3, 3)),  # halves
        ((1, 4, 5, 6), (3,), (0.05, 0.02), (3, 4)),
        ((1, 4, 5, 6), (1, 3), (0.05, 0.5), (100, 4)),
    ],
)
def test_means_are_those_of_litert(
    shape: Sequence[int],
    axes: Sequence[int],
    scales: tuple[float, float],
    zeros: tuple[int, int],
    dtype: str,
    tmp_path: Path,
) -> None:
    b, path = QuantizedBuilder(), tmp_path / "m.tflite"
    made = [n for k, n in enumerate(shape) if k not in axes]
    zeros = zeros if dtype == "int8" else (zeros[0] + 100, zeros[1] + 100)
    x = b.activation(shape, scales[0], zeros[0], dtype)
    inputs = x, b.add_constant(np.array(axes, np.int32))
    y = b.operator("MEAN", inputs, made, scales[1], zeros[1], dtype)
    b.write(path, y)
    values = full_range(read_model(path), 200)
    (wanted,) = litert(path, values)
    np.testing.assert_array_equal(odt_integers(path, values)[y], wanted.reshape(200, *made[1:]))
