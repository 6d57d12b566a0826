"""Integer rows: sums of products of quantized tensors, and their rounding to the integers of y.

y = clip(rint(float32(s) · m) + zero point of y, lo, hi) for integer sums s, where m is the quotient
of the scales, in float32. All sums are exact, so the results do not depend on their order. This is
the rounding of XNNPACK, which LiteRT uses; TFLite's reference kernels round twice. Sums of int64,
those of int16, are rounded as by these kernels: m has 31 or 15 bits, and halves are rounded up.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.geometry.activations import BOUNDS
from odt.kernels.geometry.quantize import Limits, Quantization, limits
from odt.kernels.rows.opdef import Array, Options

GROUP, QUAD = 16, 4  # units and values of the depth side by side in weights: see src/integer.h
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
EXACT = {FLOAT32: 2**24, FLOAT64: 2**53}  # integers below this are exact


@dataclass(frozen=True, slots=True)
class QuantizedTensor:
    """A quantized tensor of a file: quantization, dtype, values if it is a constant, and shape."""

    quantization: Quantization
    dtype: np.dtype[Any]
    data: Array | None = None
    shape: tuple[int, ...] = ()

    @property
    def scale(self) -> float:
        return float(self.quantization.scale[0])

    @property
    def zero(self) -> int:
        return int(self.quantization.zero_point[0])


Tensors: TypeAlias = Mapping[str, QuantizedTensor]
# (quantized tensors of a node by the row's names) → values of constant inputs of the integer row
Constants: TypeAlias = Callable[[Tensors], Mapping[str, Array]]


@dataclass(frozen=True, slots=True)
class Rounding:
    """Zero point of y, its smallest and largest value, and its dtype."""

    zero: int
    lo: int
    hi: int
    dtype: np.dtype[Any]


def quantized(options: Options) -> Tensors:
    """Returns the quantized tensors of an integer node, which its options hold."""
    tensors: Tensors = options["quantized"]
    return tensors


def rounding(options: Options) -> Rounding:
    """Returns the rounding to the integers of y, within the bounds of a fused activation."""
    y = quantized(options)["y"]
    lo, hi = clamped(y, options.get("fused_activation_function", 0))
    return Rounding(y.zero, lo, hi, y.dtype)


def clamped(y: QuantizedTensor, activation: int) -> Limits:
    """Returns the smallest and the largest integer of y after a fused activation."""
    lo, hi = limits(y.dtype)
    low, high = BOUNDS[activation]
    if np.isfinite(low):
        lo = max(lo, min(hi, y.zero + round(low / y.scale)))
    if np.isfinite(high):
        hi = min(hi, max(lo, y.zero + round(high / y.scale)))
    return lo, hi


def round_sums(sums: Array, m: Array | np.float32, to: Rounding, real: Array, y: Array) -> None:
    """Computes y from integer sums.

    Args:
        sums: int32 or int64.
        m: float32 factor, one or one for each entry of the last axis.
        real: float32 workspace in the shape of sums; float64 to round halves up.
        y: the integers.
    """
    np.copyto(real, sums, casting="same_kind")
    np.multiply(real, m, out=real)
    if real.dtype == FLOAT64:
        np.add(real, 0.5, out=real)
        np.floor(real, out=real)
    else:
        np.rint(real, out=real)
    np.add(real, np.float32(to.zero), out=real)
    np.clip(real, to.lo, to.hi, out=real)
    np.copyto(y, real, casting="unsafe")


def clip_sums(sums: Array, to: Rounding, y: Array) -> None:
    """Computes y from int64 sums that are already integers of y, less its zero point."""
    np.add(sums, to.zero, out=sums)
    np.clip(sums, to.lo, to.hi, out=sums)
    np.copyto(y, sums, casting="unsafe")


def check_factors(*factors: Array | float | np.float32) -> None:
    """Raises ShapeError if a quotient of scales is too large for a float32."""
    most = float(np.finfo(np.float32).max)
    if not all(np.all(m <= most) for m in factors):
        raise ShapeError(f"quotients of scales must be below {most:.4g}")


def exact_float(largest: int) -> np.dtype[Any]:
    """Returns the smallest float type in which all integers up to `largest` are exact."""
    return FLOAT32 if largest <= EXACT[FLOAT32] else FLOAT64


def largest(dtype: np.dtype[Any]) -> int:
    """Returns the largest magnitude of an integer type."""
    lo, hi = limits(dtype)
    return max(-lo, hi)


def sum_type(x: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the type of sums, as in TFLite: int64 for int16 activations."""
    return np.dtype(np.int64 if x.itemsize > 1 else np.int32)


def real_type(x: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the type in which sums are rounded: float64 for those of int64, as in TFLite."""
    return FLOAT64 if sum_type(x) == np.int64 else FLOAT32


def product_constants(tensors: Tensors, units_axis: int) -> dict[str, Array]:
    """Returns the constants of y = rint((Σ x w + b) m): w, b, m and `start` of each unit.

    w is less its zero point: int8 if that is 0, else int16. The sums are of x itself: the products
    of its zero point with w are part of b. Compiled kernels sum x + 128 instead if x is int8, and
    take `start` for b. `start` and m are rounded up to GROUP values.

    Args:
        tensors: x, w, b and y of a convolution or a fully connected layer; b may be absent.
        units_axis: axis of w with one entry for each unit.

    Raises:
        ShapeError: if w or b have other shapes, or a quotient of scales is too large.
    """
    x, w, y = (tensors[n] for n in "xwy")
    assert w.data is not None, "weights of integer rows are constants"
    if w.data.ndim <= units_axis:
        raise ShapeError(f"w must have an axis {units_axis}, but got {w.data.shape}")
    units = w.data.shape[units_axis]
    axes = tuple(k for k in range(w.data.ndim) if k != units_axis)
    weights = w.data
    if w.quantization.zero_point.any() or w.dtype == np.uint8:
        weights = w.data.astype(np.int16) - w.quantization.along_axis(w.data.ndim)[1]
        weights = weights.astype(np.int16)
    sums = weights.sum(axis=axes, dtype=np.int64) * -x.zero
    if "b" in tensors:
        sums += bias_of(tensors, units)
    scales = np.broadcast_to(w.quantization.scale, (units,))
    wide = sum_type(x.dtype)
    with np.errstate(over="ignore"):
        m = np.float32(x.scale) * scales / np.float32(y.scale)  # in float32, as in XNNPACK
    check_factors(m)
    if wide == np.int64:
        is_short = w.data.ndim > 2 and ("b" not in tensors or tensors["b"].dtype == wide)
        m = fixed_factors(x.scale * scales.astype(np.float64) / y.scale, is_short)
    offset = weights.sum(axis=axes, dtype=np.int64) << 7 if x.dtype == np.int8 else 0
    return {
        "w": weights,
        "b": sums.astype(wide),
        "m": grouped(m),
        "start": grouped((sums - offset).astype(np.int32)),
    }


def bias_of(tensors: Tensors, units: int) -> Array:
    """Returns the integers of b as (units,).

    Raises:
        ShapeError: if there are not as many.
    """
    bias = tensors["b"].data
    assert bias is not None, "biases of integer rows are constants"
    if bias.size != units:
        raise ShapeError(f"b must be ({units},), but got {bias.shape}")
    return bias.reshape(-1)


def fixed_factors(factors: Array, is_short: bool) -> Array:
    """Returns factors as TFLite rounds them for sums of int64: to 31 bits, and then to 15.

    Args:
        factors: the factors, float64.
        is_short: whether to round to 15 bits, as for convolutions with biases of int64 or none.
    """
    fractions, exponents = np.frexp(factors)
    rounded = np.floor(fractions * 2.0**31 + 0.5)
    if is_short:
        rounded = np.minimum(np.floor(rounded / 2**16 + 0.5), 2**15 - 1) * 2**16
    whole: Array = np.ldexp(rounded, exponents - 31)
    return whole


def grouped(values: Array) -> Array:
    """Returns values with zeros up to a whole number of groups."""
    whole: Array = np.zeros(-(-len(values) // GROUP) * GROUP, values.dtype)
    whole[: len(values)] = values
    return whole


def panel_shape(units: int, depth: int) -> tuple[int, int, int, int]:
    """Returns the shape of weights in groups of units and quads of the depth."""
    return -(-units // GROUP), -(-depth // QUAD), GROUP, QUAD


def panel(w: Array) -> Array:
    """Returns weights (O, …) as (O / GROUP, K / QUAD, GROUP, QUAD), with zeros after the last."""
    rows = w.reshape(len(w), -1)
    groups, quads, group, quad = panel_shape(*rows.shape)
    whole: Array = np.zeros((groups * group, quads * quad), w.dtype)
    whole[: rows.shape[0], : rows.shape[1]] = rows
    return np.ascontiguousarray(whole.reshape(groups, group, quads, quad).transpose(0, 2, 1, 3))


def panel_constants(tensors: Tensors) -> dict[str, Array]:
    """Returns the constants of a product whose weights are (O, …): those of a panel.

    `zeros` has the zero point of each unit, rounded up to GROUP values, or no value if all are 0.
    Zero points of uint8 are those of the weights less 128.
    """
    constants, w = product_constants(tensors, 0), tensors["w"]
    assert w.data is not None, "weights of integer rows are constants"
    if w.dtype.itemsize > 1:
        return {**constants, "w": panel(constants["w"]), "zeros": np.empty(0, np.int32)}
    weights, zero_point = w.data, w.quantization.zero_point
    if w.dtype == np.uint8:
        weights = (w.data ^ np.uint8(128)).view(np.int8)  # w − 128
        zero_point = zero_point - 128
    zeros = np.broadcast_to(zero_point, len(weights)).astype(np.int32)
    if not zeros.any():
        zeros = zeros[:0]
    return {**constants, "w": panel(weights), "zeros": grouped(zeros)}


def constants_of_groups(tensors: Tensors, groups: int) -> dict[str, Array]:
    """Returns the constants of products of groups of channels: those of each panel, in order."""
    w = tensors["w"]
    assert w.data is not None, "weights of integer rows are constants"
    units = len(w.data)
    bias = bias_of(tensors, units) if "b" in tensors else None
    panels = []
    for k in range(groups):
        part = slice(k * units // groups, (k + 1) * units // groups)
        quantization = w.quantization
        if quantization.scale.size > 1:
            scale, zero_point = quantization.scale[part], quantization.zero_point[part]
            quantization = replace(quantization, scale=scale, zero_point=zero_point)
        of_group = {**tensors, "w": replace(w, data=w.data[part], quantization=quantization)}
        if bias is not None:
            of_group["b"] = replace(tensors["b"], data=bias[part])
        panels.append(panel_constants(of_group))
    if any(p["zeros"].size for p in panels):
        panels = [
            p if p["zeros"].size else {**p, "zeros": np.zeros_like(p["start"])} for p in panels
        ]
    return {name: np.concatenate([p[name] for p in panels]) for name in panels[0]}
