"""Products of quantized tensors: the bits of the formula, from NumPy and every instruction set."""

from math import frexp
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.integer_files import QuantizedBuilder, full_range, odt_integers
from support.quantized_lstm import STEPS, UNITS, WIDTH
from support.quantized_lstm import build as build_lstm

from odt.core.formats.reader import read_model
from odt.core.integers.integer_graph import integer_graph
from odt.core.model.model import Model
from odt.core.planning.computation import Computation, Plans
from odt.core.runtime.arena import make_arena
from odt.core.runtime.program import Program
from odt.kernels.geometry.window import Axis, axis
from odt.kernels.native import library
from odt.kernels.rows.opdef import Array

SETS = ("numpy", *library.instruction_sets())
DEPTHWISE, DENSE = "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"
GRIDS = ("align_corners", "half_pixel_centers")


class Shape(NamedTuple):
    """A layer, with images (H, W, C)."""

    op: str
    image: tuple[int, int, int]
    window: tuple[int, int]
    units: int
    stride: int
    dilation: int
    padding: int
    dtype: str = "int8"

    def axes(self) -> list[Axis]:
        sizes = zip(self.image, self.window, strict=False)
        return [axis(n, k, self.stride, self.dilation, self.padding) for n, k in sizes]


SHAPES = [
    Shape("CONV_2D", (7, 6, 3), (3, 3), 5, 1, 1, 0),
    Shape("CONV_2D", (9, 11, 4), (3, 2), 16, 2, 1, 0),
    Shape("CONV_2D", (9, 11, 4), (3, 3), 17, 1, 2, 0),
    Shape("CONV_2D", (5, 5, 64), (1, 1), 33, 1, 1, 1),
    Shape("CONV_2D", (6, 5, 130), (3, 3), 20, 1, 1, 0),
    Shape("CONV_2D", (30, 31, 1), (5, 4), 3, 2, 1, 1, "uint8"),
    Shape(DEPTHWISE, (7, 6, 3), (3, 3), 3, 1, 1, 0),
    Shape(DEPTHWISE, (7, 6, 16), (3, 3), 16, 2, 1, 0),
    Shape(DEPTHWISE, (9, 6, 37), (5, 3), 37, 1, 1, 0, "uint8"),
    Shape(DEPTHWISE, (9, 9, 48), (3, 3), 48, 1, 3, 1),
    Shape(DEPTHWISE, (6, 6, 4), (3, 3), 12, 1, 1, 0),
    Shape(DEPTHWISE, (4, 21, 24), (3, 3), 24, 1, 1, 0),  # windows side by side in a vector
    Shape(DEPTHWISE, (8, 9, 70), (3, 3), 70, 2, 1, 0),  # the last vector of a pixel is not full
    Shape(DEPTHWISE, (9, 8, 20), (3, 3), 20, 1, 2, 0, "uint8"),  # rows before the image
    Shape(DEPTHWISE, (2, 9, 2500), (3, 3), 2500, 1, 1, 0),  # a row does not fit into the scratch
    Shape(DENSE, (1, 1, 1), (1, 1), 1, 1, 1, 1),
    Shape(DENSE, (1, 1, 130), (1, 1), 31, 1, 1, 1),
    Shape(DENSE, (1, 1, 4100), (1, 1), 2, 1, 1, 1, "uint8"),
]
# Zero points of weights: one, or those of units in turn. With 0, uint8 is no sum of two int8.
ZEROS = {"symmetric": [0], "low": [0], "middle": [117], "high": [255], "own": [131, 0, 255]}
SAMPLES = 14  # more than the rows of a register tile, and a rest


def build(shape: Shape, path: Path, weights_type: str = "int8", zeros: str = "symmetric") -> Model:
    """Writes a file of one layer, as Circle for weights of other types than int8.

    `zeros` is the name of the zero points of the weights: see ZEROS.
    """
    op, (h, w, c), (kh, kw), units, stride, dilation, padding, dtype = shape
    b = QuantizedBuilder(3, "tflite" if weights_type == "int8" else "circle")
    zero = {"int8": 12, "uint8": 140, "int16": 0}[dtype]
    x = b.activation((1, c) if op == DENSE else (1, h, w, c), 0.02, zero, dtype)
    filters = (1, kh, kw, units) if op == DEPTHWISE else (units, kh, kw, c)
    scales = b.rng.uniform(0.0002, 0.003, units).astype(np.float32).tolist()
    weights = b.weights(
        (units, c) if op == DENSE else filters,
        scales,
        3 if op == DEPTHWISE else 0,
        weights_type,
        ZEROS[zeros],
    )
    bias = b.bias(units, [0.02 * s for s in scales], most=2000)
    axes = shape.axes()
    windows = {} if op == DENSE else {"padding": padding, "stride_h": stride, "stride_w": stride}
    if op != DENSE:
        windows |= {"dilation_h_factor": dilation, "dilation_w_factor": dilation}
    made = (1, units) if op == DENSE else (1, *(a.out for a in axes), units)
    step, middle = (40.0, 0) if dtype == "int16" else (0.05, zero - 20)
    y = b.operator(op, (x, weights, bias), made, step, middle, dtype, **windows)
    b.write(path, y)
    return read_model(path)


def fifteen_bits(factor: float) -> float:
    """A factor with 15 bits, first rounded to 31."""
    fraction, exponent = frexp(factor)
    whole = int(fraction * 2**31 + 0.5)
    return min((whole + 2**15) >> 16, 2**15 - 1) * 2.0 ** (exponent - 15)


def formula(shape: Shape, model: Model, x: Array) -> Array:
    """The sums in int64, tap by tap, rounded once: in float32, or halves up for int16."""
    op, (h, w, c), (kh, kw), units, stride, dilation, _, dtype = shape
    (node,) = model.graph.nodes
    first, second, third, last = (*node.inputs, *node.outputs)
    zero, to = (int(model.quantization[i].zero_point[0]) for i in (first, last))
    filters, bias = (model.graph.tensors[i].data for i in (second, third))
    assert filters is not None
    assert bias is not None
    a, v = shape.axes()
    images = x.astype(np.int64).reshape(-1, h, w, c) - zero
    images = np.pad(images, ((0, 0), (a.lo, a.hi), (v.lo, v.hi), (0, 0)))
    sums = np.zeros((len(x), a.out, v.out, units), np.int64) + bias
    taps = (filters - model.quantization[second].along_axis(filters.ndim)[1]).astype(np.int64)
    taps = taps.reshape(-1, kh, kw, filters.shape[-1])
    for i in range(kh):
        for j in range(kw):
            rows, cols = (slice(k * dilation, None, stride) for k in (i, j))
            window = images[:, rows, cols][:, : a.out, : v.out]
            if op == DEPTHWISE:
                sums += np.repeat(window, units // c, axis=3) * taps[0, i, j]
            else:
                sums += window @ taps[:, i, j].T
    scales = [model.quantization[i].scale for i in (first, second, last)]
    m = scales[0] * scales[1] / scales[2]
    real = np.rint(sums.astype(np.float32) * m) + to
    if dtype == "int16":
        m = np.float64(scales[0]) * scales[1] / scales[2]
        if op != DENSE and bias.dtype == np.int64:
            m = np.array([fifteen_bits(float(factor)) for factor in m])
        real = np.floor(sums * m + 0.5)
    info = np.iinfo(dtype)
    expected: Array = np.clip(real, info.min, info.max).astype(dtype)
    return expected


@pytest.mark.parametrize("kernels", SETS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_have_the_bits_of_the_formula(
    shape: Shape, kernels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODT_KERNELS", kernels)
    model = build(shape, tmp_path / "m.tflite")
    inputs = full_range(model, SAMPLES)
    (ours,) = odt_integers(tmp_path / "m.tflite", inputs).values()
    expected = formula(shape, model, inputs[0])
    assert np.array_equal(ours.reshape(expected.shape), expected)
    assert len(np.unique(expected)) > 3


@pytest.mark.parametrize("kernels", SETS)
@pytest.mark.parametrize("zeros", ["low", "middle", "high", "own"])
@pytest.mark.parametrize("shape", [s for s in SHAPES if s.units > 2], ids=str)
def test_weights_with_zero_points_have_the_bits_of_the_formula(
    shape: Shape, zeros: str, kernels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow 1 quantizes weights to uint8 with one zero point, Samsung ONE with one each."""
    monkeypatch.setenv("ODT_KERNELS", kernels)
    model = build(shape, tmp_path / "m.circle", "uint8", zeros)
    graph = integer_graph(model)
    (node,) = (n for n in graph.nodes if n.op == f"INTEGER_{shape.op}")
    stored = graph.tensors[node.inputs[1]].spec.dtype
    assert stored == np.int8 or (shape.op == DEPTHWISE and zeros in ("low", "own"))
    inputs = full_range(model, SAMPLES)
    (ours,) = odt_integers(tmp_path / "m.circle", inputs).values()
    expected = formula(shape, model, inputs[0])
    assert np.array_equal(ours.reshape(expected.shape), expected)
    assert len(np.unique(expected)) > 3


@pytest.mark.parametrize("shape", [s for s in SHAPES if s.units > 2], ids=str)
def test_weights_of_16_bits_have_the_bits_of_the_formula(shape: Shape, tmp_path: Path) -> None:
    shape = shape._replace(dtype="int16")
    model = build(shape, tmp_path / "m.circle", "int16")
    assert model.format == "circle"
    inputs = full_range(model, SAMPLES)
    (ours,) = odt_integers(tmp_path / "m.circle", inputs).values()
    expected = formula(shape, model, inputs[0])
    assert np.array_equal(ours.reshape(expected.shape), expected)
    assert len(np.unique(expected)) > 3


@pytest.mark.parametrize("kernels", SETS)
@pytest.mark.parametrize("op", ["CONV_2D", DEPTHWISE])
@pytest.mark.parametrize("pads", [((0, 1), (0, 1)), ((5, 1), (0, 9))], ids=str)
def test_a_padding_before_windows_is_read_as_their_border(
    pads: tuple[tuple[int, int], ...],
    op: str,
    kernels: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ODT_KERNELS", kernels)
    (up, down), (left, right) = pads
    size = (1, 6 + up + down, 5 + left + right, 20)
    made, results = (1, *((n - 3) // 2 + 1 for n in size[1:3]), 20), list[Array]()
    image = np.random.default_rng(3).integers(-128, 128, (3, 6, 5, 20)).astype(np.int8)
    around = np.pad(image, [(0, 0), *pads, (0, 0)], constant_values=12)
    for name, values in {"padded": image, "before": around}.items():
        b, path = QuantizedBuilder(5), tmp_path / f"{name}.tflite"
        x = b.activation((1, *values.shape[1:]), 0.02, 12)
        if name == "padded":
            paddings = b.add_constant(np.array([(0, 0), *pads, (0, 0)], np.int32))
            x = b.operator("PAD", (x, paddings), size, 0.02, 12)
        w = b.weights((20, 3, 3, 20) if op == "CONV_2D" else (1, 3, 3, 20), [0.001])
        bias = b.bias(20, [0.02 * 0.001])
        y = b.operator(op, (x, w, bias), made, 0.05, -8, padding=1, stride_h=2, stride_w=2)
        b.write(path, y)
        graph = integer_graph(read_model(path))
        (row,) = (n for n in graph.nodes if n.op == f"INTEGER_{op}")
        assert row.inputs[0] in graph.inputs
        results.append(odt_integers(path, [values])[y])
    first, second = results
    assert np.array_equal(first, second)
    assert len(np.unique(first)) > 3


@pytest.mark.parametrize("kernels", SETS)
@pytest.mark.parametrize("op", ["ADD", "SUB"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    "scales",
    [(0.1, 0.03, 0.12), (0.02,) * 3, (1e-6, 3.0, 0.05), (0.40149295, 0.27583435, 0.43216896)],
)
def test_sums_have_the_bits_of_the_formula(
    op: str,
    dtype: str,
    scales: tuple[float, float, float],
    kernels: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ODT_KERNELS", kernels)
    b, path = QuantizedBuilder(), tmp_path / "m.tflite"
    zeros = (130, 90, 128) if dtype == "uint8" else (-100, 127, -128)
    inputs = [b.activation((1, 3, 57), scales[k], zeros[k], dtype) for k in range(2)]
    b.write(path, b.operator(op, inputs, (1, 3, 57), scales[2], zeros[2], dtype))
    model = read_model(path)
    first, second = full_range(model, 40)
    (ours,) = odt_integers(path, [first, second]).values()
    ratios = [float(np.float32(s) / np.float32(scales[2])) for s in scales[:2]]
    shift = 21 - int(np.frexp(max(ratios))[1])
    factors = [round(r * 2**shift) for r in ratios]
    terms = [
        (x.astype(np.int64) - z) * f
        for x, z, f in zip((first, second), zeros, factors, strict=False)
    ]
    total = terms[0] + terms[1] * (1 if op == "ADD" else -1)
    info = np.iinfo(dtype)
    expected = np.clip(((total + 2 ** (shift - 1)) >> shift) + zeros[2], info.min, info.max)
    assert np.array_equal(ours, expected)


@pytest.mark.parametrize("kernels", SETS)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_conversions_have_the_bits_of_the_formula(
    dtype: str, kernels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODT_KERNELS", kernels)
    scale, zero = np.float32(0.13), 3 if dtype == "int8" else 131
    b, path = QuantizedBuilder(), tmp_path / "m.tflite"
    x = b.add_input((1, 211))
    q = b.operator("QUANTIZE", (x,), (1, 211), float(scale), zero, dtype)
    b.write(path, b.add_operator("DEQUANTIZE", (q,), (1, 211)))
    values = np.random.default_rng(1).normal(size=(7, 211), scale=12).astype(np.float32)
    values[0, :60] = (np.arange(60) - 29.5) * scale  # halves
    values[1, :6] = np.nan, np.inf, -np.inf, 1e30, -1e30, -0.0
    info = np.iinfo(dtype)
    steps = np.rint(values * (1 / scale)) + np.float32(zero)
    steps = np.where(np.isnan(steps), info.min, np.clip(steps, info.min, info.max))
    assert np.array_equal(odt_integers(path, [values])[q], steps)
    plan, memory = Plans(integer_graph(read_model(path))).verified(Computation(outputs=True), 7)
    program = Program(plan, memory, make_arena(memory.nbytes), {})
    np.copyto(program.inputs[0], values)
    program.forward()
    assert np.array_equal(program.outputs[0], (steps - np.float32(zero)) * scale)


@pytest.mark.parametrize("kernels", library.instruction_sets())
@pytest.mark.parametrize(
    ("options", "samples"),
    [
        ({}, 1),
        ({"coupled": True}, 7),
        ({"peepholes": True, "cell_clip": 1.5}, 33),
        ({"peepholes": True, "coupled": True, "cell_scale": 2**-12}, 5),
        ({"projection": 5}, 9),
        ({"projection": UNITS, "peepholes": True}, 4),
        ({"time_major": True, "samples": 6}, 6),
        ({"time_major": True, "samples": 3, "projection": 17}, 3),
    ],
    ids=str,
)
def test_a_compiled_lstm_has_the_bits_of_numpy(
    options: dict[str, Any],
    samples: int,
    kernels: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = build_lstm(tmp_path / "m.tflite", **options)
    shape = (STEPS, samples, WIDTH) if "time_major" in options else (samples, STEPS, WIDTH)
    x = np.random.default_rng(7).integers(-128, 128, shape).astype(np.int8)
    assert_bits_of_numpy(path, x, kernels, monkeypatch)


@pytest.mark.parametrize("kernels", library.instruction_sets())
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("image", "size"),
    [((5, 7, 3), (11, 4)), ((1, 1, 21), (3, 5)), ((8, 6, 33), (3, 2)), ((4, 4, 1), (9, 9))],
)
@pytest.mark.parametrize("centers", [(False, False), (True, False), (False, True)])
def test_compiled_resizing_has_the_bits_of_numpy(
    image: tuple[int, int, int],
    size: tuple[int, int],
    centers: tuple[bool, bool],
    dtype: str,
    kernels: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    b, path = QuantizedBuilder(), tmp_path / "m.tflite"
    x = b.activation((1, *image), 0.02, 3, dtype)
    inputs, options = (
        (x, b.add_constant(np.array(size, np.int32))),
        dict(zip(GRIDS, centers, strict=True)),
    )
    shape = (1, *size, image[2])
    b.write(path, b.operator("RESIZE_BILINEAR", inputs, shape, 0.02, 3, dtype, **options))
    (images,) = full_range(read_model(path), 5)
    assert_bits_of_numpy(path, images, kernels, monkeypatch)


def assert_bits_of_numpy(
    path: Path, x: Array, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiled kernels of an operator compute what its NumPy kernel computes."""
    found = list[Array]()
    for kind in ("numpy", kernels):
        monkeypatch.setenv("ODT_KERNELS", kind)
        found += odt_integers(path, [x]).values()
    assert np.array_equal(found[0], found[1])
    assert len(np.unique(found)) > 5
