"""Scales of weights that train: those of the file, until weights exceed them."""

import math

import numpy as np
import pytest

from odt.core.planning.stored_weights import DECODE, StoredAttrs
from odt.kernels.geometry.decoders import IntegerDecoder
from odt.kernels.geometry.quantize import Quantization, dequantize, limits
from odt.kernels.geometry.weight_quantization import WeightQuantization
from odt.kernels.native.library import compiled_of, is_available
from odt.kernels.native.stored_weights import decode
from odt.kernels.native.updates import bind_round_units
from odt.kernels.rows.opdef import Array, TensorSpec

INT8, UINT8 = np.dtype(np.int8), np.dtype(np.uint8)


def per_channel(*scales: float, axis: int = 0) -> WeightQuantization:
    scale = np.array(scales, np.float32)
    return WeightQuantization(Quantization(scale, np.zeros(scale.size, np.int64), axis), INT8)


def fake_quantized(quantization: WeightQuantization, w: Array) -> Array:
    out = np.full_like(w, np.nan)
    quantization.fake_quantize(w, out)
    return out


def test_integers_of_the_file_stay() -> None:
    rng = np.random.default_rng(0)
    q = rng.integers(-127, 128, (3, 2, 2, 5)).astype(np.int8)
    first = per_channel(0.01, 3e-7, 5.0)
    w = dequantize(q, first.first)
    integers, found = first.quantize(w)
    np.testing.assert_array_equal(integers, q)
    np.testing.assert_array_equal(found.scale, first.first.scale)
    np.testing.assert_array_equal(fake_quantized(first, w), w)


def test_a_scale_stays_if_it_would_grow_by_rounding_alone() -> None:
    """With this scale s, 127 s / 127 is the next float32."""
    scale = np.float32(1.0078811645507812)
    assert scale * np.float32(127) / np.float32(127) > scale
    first = per_channel(scale.item())
    integers, found = first.quantize(dequantize(np.array([[127, -127, 3]], np.int8), first.first))
    assert integers.tolist() == [[127, -127, 3]]
    assert found.scale == scale
    assert first.quantize(np.array([[127.001]], np.float32) * scale)[1].scale > scale


@pytest.mark.parametrize(
    ("dtype", "zero_point", "most"), [(INT8, 0, 127), (UINT8, 100, 255), (np.int16, 0, 32767)]
)
def test_dither_keeps_integers_and_lets_small_changes_count(
    dtype: np.dtype[np.integer], zero_point: int, most: int
) -> None:
    rng = np.random.default_rng(0)
    lo = 0 if dtype == UINT8 else -most
    q = rng.integers(lo, most, (2, 50_000), endpoint=True).astype(dtype)
    scales = np.array([0.013, 3e-7], np.float32)
    quantization = Quantization(scales, np.full(2, zero_point), 0)
    weights = WeightQuantization(quantization, np.dtype(dtype))
    w = dequantize(q, quantization)
    weights.dither(w, noise=rng.random((2, 50_000), np.float32))
    integers, found = weights.quantize(w)
    np.testing.assert_array_equal(integers, q)
    np.testing.assert_array_equal(found.scale, scales)
    inner = (q > lo) & (q < most)
    change = weights.quantize(np.where(inner, w + 0.1 * scales[:, np.newaxis], w))[0] - q
    assert change[inner].mean() == pytest.approx(0.1, abs=0.01)


def test_a_scale_grows_with_the_largest_weight_of_its_channel_alone() -> None:
    quantization = per_channel(0.01, 0.01)
    w = np.array([[0.5, -2.54], [0.5, -1.2]], np.float32)
    integers, found = quantization.quantize(w)
    np.testing.assert_allclose(found.scale, [0.02, 0.01], rtol=1e-6)
    np.testing.assert_array_equal(integers, [[25, -127], [50, -120]])
    np.testing.assert_allclose(fake_quantized(quantization, w), w, atol=0.01)


def test_scales_of_2_bits_and_of_blocks_stay() -> None:
    scale = np.array([0.5, 0.25], np.float32)
    w = np.array([[-3.0, 0.3, 1.5], [0.2, 0.1, -0.4]], np.float32)
    two = WeightQuantization(Quantization(scale, np.zeros(2, np.int64), 0), INT8, 2)
    integers, first = two.quantize(w)
    assert integers.tolist() == [[-2, 1, 1], [1, 0, -2]]
    np.testing.assert_array_equal(first.scale, scale)
    blocks = Quantization(scale, np.zeros(2, np.int64), 0, (1, 2))
    four = WeightQuantization(blocks, INT8, 4)
    w = np.array([[-5.0, 0.3, 1.5, 3.0]], np.float32)
    integers, first = four.quantize(w)
    assert integers.tolist() == [[-8, 1, 6, 7]]
    np.testing.assert_array_equal(first.scale, scale)
    np.testing.assert_array_equal(fake_quantized(four, w), [[-4.0, 0.5, 1.5, 1.75]])


def test_channels_may_be_along_the_last_axis() -> None:
    quantization = per_channel(0.01, 0.01, axis=3)
    w = np.array([[[[5.08, 0.3]], [[-1.0, 1.27]]]], np.float32)
    integers, found = quantization.quantize(w)
    np.testing.assert_allclose(found.scale, [0.04, 0.01], rtol=1e-6)
    np.testing.assert_array_equal(integers[..., 0], [[[127], [-25]]])
    np.testing.assert_array_equal(integers[..., 1], [[[30], [127]]])


def test_minus_128_is_not_used_with_zero_point_0() -> None:
    quantization = per_channel(0.5)
    integers, found = quantization.quantize(np.array([[-64.0, 1.0]], np.float32))
    assert integers.tolist() == [[-127, 2]]
    np.testing.assert_allclose(found.scale, [64 / 127])


def test_a_least_scale_leaves_room_for_a_bias() -> None:
    integers, found = per_channel(0.01, 0.01).quantize(
        np.ones((2, 3), np.float32), np.array([0.1, 0.001])
    )
    np.testing.assert_allclose(found.scale, [0.1, 0.01], rtol=1e-6)
    assert integers.tolist() == [[10] * 3, [100] * 3]


@pytest.mark.parametrize("low", [-1.0, -3.0])
@pytest.mark.parametrize("high", [1.54, 4.0])
def test_a_range_with_another_zero_point_grows_on_the_side_that_is_exceeded(
    low: float, high: float
) -> None:
    quantization = WeightQuantization(
        Quantization(np.array([0.01], np.float32), np.array([100]), 0), UINT8
    )  # −1 … 1.55
    w = np.array([[low, 0.0, high]], np.float32)
    integers, found = quantization.quantize(w)
    (step,) = found.scale
    np.testing.assert_allclose(dequantize(integers, found), w, atol=0.51 * step)
    assert 0 in (integers[0, 1] - found.zero_point), "0 must be represented exactly"
    if (low, high) == (-1.0, 1.54):
        assert (step, found.zero_point[0]) == (np.float32(0.01), 100)


@pytest.mark.skipif(not is_available(), reason="no compiled kernels")
@pytest.mark.parametrize("dtype", [INT8, UINT8])
@pytest.mark.parametrize(
    ("shape", "axis", "units"),
    [((5, 3, 3, 7), 0, 5), ((1, 3, 3, 37), 3, 37), ((4, 6, 3), 1, 6), ((9, 11), 0, 1)],
)
def test_compiled_weights_have_the_bits_of_numpy(
    shape: tuple[int, ...], axis: int, units: int, dtype: np.dtype[np.integer]
) -> None:
    rng, (lo, hi) = np.random.default_rng(0), limits(dtype)
    x = rng.integers(lo, hi, shape, endpoint=True).astype(dtype)
    scale = rng.uniform(1e-4, 0.1, units).astype(np.float32)
    first = Quantization(scale, rng.integers(lo, hi, units), axis)
    y = np.full(shape, np.nan, np.float32)
    attrs = StoredAttrs(IntegerDecoder(first), shape, "")
    specs = {"x": TensorSpec(shape, dtype), "y": TensorSpec(shape, y.dtype)}
    assert compiled_of(DECODE, attrs, specs)
    decode(attrs, x=x, y=y)()
    np.testing.assert_array_equal(y, dequantize(x, first))


@pytest.mark.skipif(not is_available(), reason="without compiled kernels, NumPy rounds")
@pytest.mark.parametrize("spread", [0.5, 3.0])  # of the weights, in the range of the file
@pytest.mark.parametrize(
    ("shape", "axis", "units"),
    [
        ((5, 3, 3, 19), 0, 5),
        ((1, 3, 3, 21), 3, 21),
        ((7, 133), 0, 7),
        ((40, 70), 0, 1),
    ],
)
@pytest.mark.parametrize(
    "kind", ["int8", "int4", "int2", "int4 in blocks", "uint8", "int8 with zero points", "int16"]
)
def test_compiled_rounding_gives_the_bits_of_numpy(
    kind: str, shape: tuple[int, ...], axis: int, units: int, spread: float
) -> None:
    rng = np.random.default_rng(4)
    name, *form = kind.split()
    bits = {"int4": 4, "int2": 2}.get(name, 0)
    dtype = np.dtype("int8" if bits else name)
    blocks: tuple[int, ...] = ()
    if form == ["in", "blocks"]:
        blocks = (*[1] * (len(shape) - 1), shape[-1] // 7 if shape[-1] % 7 == 0 else shape[-1])
        units, axis = math.prod(shape) // blocks[-1], 0
    scale = rng.uniform(0.01, 0.1, units).astype(np.float32)
    zero = rng.integers(3, 9, units) if kind in ("uint8", "int8 with zero points") else scale * 0
    first = Quantization(scale, zero.astype(np.int64), axis, blocks)
    quantization = WeightQuantization(first, dtype, bits)
    most = quantization.limits[1] * float(scale.max())
    w = rng.normal(0, spread * most / 3, shape).astype(np.float32)
    out = np.full_like(w, np.nan)
    bind_round_units(w, out, quantization)()
    np.testing.assert_array_equal(out, fake_quantized(quantization, w))
