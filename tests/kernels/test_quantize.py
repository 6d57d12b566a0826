"""Affine quantization, against its definition in Python's exact fractions."""

import math
import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from odt.kernels.geometry.quantize import (
    Quantization,
    dequantize,
    limits,
    quantize,
    round_to_steps,
    steps_to_real,
)
from odt.kernels.rows.opdef import Array

DTYPES = [np.dtype(name) for name in ("int8", "uint8", "int16", "int32")]


def of(scale: ArrayLike, zero_point: ArrayLike = 0, axis: int = 0) -> Quantization:
    scales = np.array(scale, np.float32).reshape(-1)
    zero_points = np.array(zero_point, np.int64)
    return Quantization(scales, np.broadcast_to(zero_points, scales.shape), axis)


def exact(x: float, scale: float, zero_point: int, dtype: np.dtype[Any]) -> int:
    """The nearest integer of one number, ties to even."""
    lo, hi = limits(dtype)
    if math.isinf(x):
        return hi if x > 0 else lo
    return min(max(round(Fraction(x) / Fraction(scale)) + zero_point, lo), hi)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_quantized_values_are_the_nearest_integers(dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(0)
    scale, zero_point = 2.0**-3, 5  # a power of two: products with its inverse are exact
    x = np.concatenate(
        [rng.normal(0, 20, 500), np.arange(-40, 40) / 16, [1e30, -1e30, np.inf, -np.inf]]
    ).astype(np.float32)
    q = quantize(x, of(scale, zero_point), dtype)
    assert q.dtype == dtype
    assert q.tolist() == [exact(float(v), scale, zero_point, dtype) for v in x]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_quantization_of_real_values_returns_the_integers(dtype: np.dtype[Any]) -> None:
    lo, hi = limits(dtype)
    q = np.unique(np.linspace(lo, hi, 65536)).astype(dtype)
    for scale in (0.0123, 7.1, 3e-9):
        same = quantize(dequantize(q, of(scale, 3)).astype(np.float64), of(scale, 3), dtype)
        within = 2 ** max(0, 8 * dtype.itemsize - 24)  # float32 holds 24 bits
        assert np.abs(same.astype(np.int64) - q).max() < max(within, 1)


def test_real_values_are_scale_times_steps_from_the_zero_point() -> None:
    q = np.array([-128, -5, 0, 127], np.int8)
    assert dequantize(q, of(0.5, -5)).tolist() == [-61.5, 0, 2.5, 66]
    assert dequantize(q, of(0.5, -5)).dtype == np.float32


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_each_entry_of_the_axis_has_its_scale(axis: int) -> None:
    shape = (2, 3, 4)
    q: Array = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
    scales, zeros = np.float32(2.0) ** np.arange(shape[axis]), np.arange(shape[axis])
    real = dequantize(q, of(scales, zeros, axis))
    for k in range(shape[axis]):
        entry = dequantize(q.take(k, axis), of(scales[k], zeros[k]))
        assert np.array_equal(real.take(k, axis), entry)
    assert np.array_equal(quantize(real, of(scales, zeros, axis), q.dtype), q)


def test_given_limits_and_nan() -> None:
    x = np.array([-9, 0, 9, np.nan], np.float32)
    assert quantize(x, of(1), np.dtype(np.int8), (-7, 7)).tolist() == [-7, 0, 7, -7]


def test_arrays_are_computed_in_place_without_allocation() -> None:
    x = np.random.default_rng(2).normal(0, 50, 1 << 18).astype(np.float32)
    expected = dequantize(quantize(x, of(0.7, 4), np.dtype(np.int8)), of(0.7, 4))
    scale, zero = of(0.7, 4).along_axis(1)
    tracemalloc.start()
    round_to_steps(x, scale, zero, (-128, 127), x)
    steps_to_real(x, scale, zero, x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(x, expected)
    assert peak < x.nbytes / 4
