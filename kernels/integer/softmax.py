"""INTEGER_SOFTMAX over the last axis of a quantized tensor.

x, y (…, K)

e = rint(2³⁰ exp(β s_x (x − max x))), from a table; y = clip(rint(e / (s_y Σ e)) + z_y). The sum is
exact and the quotient float64, so the result is the same in every order.

From int16 to int16 with s_y = 2⁻¹⁵ and z_y = 0, as TFLite prescribes, e has 15 bits and is 0 below
exp(−10), and so has r = 1 / (1 + f) with Σ e = 2ⁿ (1 + f): y = min(round(e r / 2ⁿ), 2¹⁵ − 1). Both
functions are interpolated between 513 values. These are the bits of TFLite's kernel, which LiteRT
uses.
Source: SoftmaxOptions in the TFLite schema.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.requantize import Rounding, quantized, rounding
from odt.kernels.geometry.axes import same
from odt.kernels.geometry.fixed_point import (
    HI,
    LO,
    ONE_BITS,
    fixed_multiplier,
    interpolated,
    multiplied,
    table_of,
)
from odt.kernels.geometry.quantize import limits
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Options, Specs, TensorSpec

ONE = 2.0**30  # the table's value of exp(0)
LARGEST = float(np.finfo(np.float32).max)
LEAST = -10.0  # number with the least exponential of int16, whose steps are −LEAST / WIDTH
WIDTH = 2**16 - 1


@dataclass(frozen=True, slots=True)
class IntegerSoftmaxAttrs:
    """β times the scale of x, the scale of y, the rounding of y, and whether it has 15 bits."""

    step: float
    scale: float
    to: Rounding
    fixed: bool


def attrs(options: Options, statics: Mapping[str, Array]) -> IntegerSoftmaxAttrs:
    x, y = (quantized(options)[n] for n in "xy")
    beta = float(options.get("beta", 1.0))
    step = x.scale * beta
    if not 0 < step < LARGEST:
        raise ShapeError(
            f"beta times the scale of x must be above 0 and below {LARGEST:.4g}, but got {step:g}"
        )
    fixed = x.dtype == y.dtype == np.int16 and (y.scale, y.zero) == (2.0**-ONE_BITS, 0)
    return IntegerSoftmaxAttrs(float(np.float32(step)), y.scale, rounding(options), fixed)


def infer(attrs: IntegerSoftmaxAttrs, s: Specs) -> Specs:
    x = s["x"]
    if not x.shape or not x.size:
        raise ShapeError(f"x must be (…, K) and not empty, but got {x}")
    return {"y": TensorSpec(x.shape, attrs.to.dtype)}


def table(attrs: IntegerSoftmaxAttrs, s: Specs) -> Mapping[str, Any]:
    """Prepares the exponentials of −β s_x d for all distances d from the maximum, as integers."""
    lo, hi = limits(s["x"].dtype)
    distances = np.arange(hi - lo + 1)
    if attrs.fixed:
        steps = multiplied(-distances, fixed_multiplier(attrs.step / (-LEAST / WIDTH)))
        exponentials = table_of(np.exp, LEAST, 0)
        return {"table": interpolated(exponentials, np.clip(steps + HI, LO, HI))}
    return {"table": np.rint(ONE * np.exp(-attrs.step * distances)).astype(np.int64)}


@cache
def reciprocals() -> Array:
    """The values of 1 / (1 + f) between which `fixed_quotients` interpolates."""
    return table_of(lambda f: 1 / (1 + f), 0, 1)


def fixed_quotients(e: Array) -> None:
    """Replaces exponentials of 15 bits by their quotients by the sum of all."""
    total = int(e.sum())
    bits = total.bit_length()
    fraction = ((total << (2 * ONE_BITS + 1) >> bits) + (1 << 13)) >> 14  # (1 + f) 2¹⁶
    at = min(fraction - 2**16 + LO, HI)
    np.multiply(e, interpolated(reciprocals(), np.array(at)), out=e)
    np.add(e, 1 << (bits - 2), out=e)
    np.right_shift(e, bits - 1, out=e)


def workspace(attrs: IntegerSoftmaxAttrs, s: Specs) -> Specs:
    """Returns the workspace for one row."""
    row = (s["x"].shape[-1],)
    return {
        "distances": TensorSpec(row, np.dtype(np.int64)),
        "exponentials": TensorSpec(row, np.dtype(np.int64)),
        "quotients": TensorSpec(row, np.dtype(np.float64)),
    }


def forward(
    attrs: IntegerSoftmaxAttrs,
    *,
    x: Array,
    y: Array,
    table: Array,
    distances: Array,
    exponentials: Array,
    quotients: Array,
) -> None:
    to, classes = attrs.to, x.shape[-1]
    rows, results = (a.reshape(-1, classes, copy=False) for a in (x, y))
    for row, result in zip(rows, results, strict=True):
        np.subtract(np.int64(row.max()), row, out=distances)
        np.take(table, distances, out=exponentials, mode="clip")
        if attrs.fixed:
            fixed_quotients(exponentials)
            np.clip(exponentials, 0, HI, out=exponentials)
            np.copyto(result, exponentials, casting="unsafe")
            continue
        factor = 1 / (float(exponentials.sum()) * attrs.scale)
        np.multiply(exponentials, factor, out=quotients)
        np.rint(quotients, out=quotients)
        np.add(quotients, to.zero, out=quotients)
        np.clip(quotients, to.lo, to.hi, out=quotients)
        np.copyto(result, quotients, casting="unsafe")


def mixes_samples(attrs: IntegerSoftmaxAttrs, s: Specs, batched: Names) -> bool:
    return len(s["x"].shape) == 1


OP = OpDef(
    "INTEGER_SOFTMAX",
    inputs=("x",),
    infer=infer,
    forward=Kernel(forward, reads=("x",), writes=("y",), workspace=workspace, prepare=table),
    grads={},
    stops=("x",),
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=same,
)
