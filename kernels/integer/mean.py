"""INTEGER_MEAN: mean of quantized bytes over some axes.

y = clip(rint(Σ x · m + z_y − z_x n m)) for the n values of a mean, with m = s_x / (n s_y) and all
but the sum in float32. The sum is exact, so that the result does not depend on its order. Source:
TFLite's kernel of MEAN for 8 bits, whose results these are.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families import reduce
from odt.kernels.families.requantize import Rounding, check_factors, quantized, rounding
from odt.kernels.geometry import reduce_geometry
from odt.kernels.geometry.reduce_geometry import ReduceAttrs, reduce_attrs
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Options, Specs, TensorSpec

FLOAT32, INT64 = np.dtype(np.float32), np.dtype(np.int64)
Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IntegerMeanAttrs:
    """Axes, zero point of x, the quotient of the scales, and the rounding of y."""

    reduce: ReduceAttrs
    zero: int
    ratio: float
    to: Rounding


def attrs(options: Options, statics: Mapping[str, Array]) -> IntegerMeanAttrs:
    x, y = (quantized(options)[n] for n in "xy")
    ratio = x.scale / y.scale
    check_factors(ratio)
    return IntegerMeanAttrs(reduce_attrs(options, statics), x.zero, ratio, rounding(options))


def infer(attrs: IntegerMeanAttrs, s: Specs) -> Specs:
    if not s["x"].size:
        raise ShapeError(f"x must have values, but got {s['x']}")
    mean = reduce.infer(attrs.reduce, s)["y"]
    return {"y": TensorSpec(mean.shape, attrs.to.dtype)}


def prepare(attrs: IntegerMeanAttrs, s: Specs) -> Mapping[str, Any]:
    """Prepares the axes, and the factor and the number that the sum takes."""
    geometry = reduce_geometry.prepare(attrs.reduce, s)
    count = np.float32(geometry["count"])
    factor = np.float32(attrs.ratio / geometry["count"])
    offset = np.float32(attrs.to.zero) - np.float32(attrs.zero) * count * factor
    return {
        "axes": geometry["axes"],
        "keepdims_shape": geometry["keepdims_shape"],
        "factor": factor,
        "offset": offset,
    }


def workspace(attrs: IntegerMeanAttrs, s: Specs) -> Specs:
    shape = s["y"].shape
    return {"sums": TensorSpec(shape, INT64), "real": TensorSpec(shape, FLOAT32)}


def forward(
    attrs: IntegerMeanAttrs,
    *,
    x: Array,
    y: Array,
    axes: Axes,
    keepdims_shape: Axes,
    factor: np.float32,
    offset: np.float32,
    sums: Array,
    real: Array,
) -> None:
    np.sum(x, axis=axes, keepdims=True, dtype=INT64, out=sums.reshape(keepdims_shape, copy=False))
    np.copyto(real, sums, casting="same_kind")
    np.multiply(real, factor, out=real)
    np.add(real, offset, out=real)
    np.rint(real, out=real)
    np.clip(real, attrs.to.lo, attrs.to.hi, out=real)
    np.copyto(y, real, casting="unsafe")


def mixes_samples(attrs: IntegerMeanAttrs, s: Specs, batched: Names) -> bool:
    return reduce.mixes_samples(attrs.reduce, s, batched)


def later_axes(attrs: IntegerMeanAttrs, samples: int) -> IntegerMeanAttrs:
    return replace(attrs, reduce=reduce_geometry.later_axes(attrs.reduce, samples))


def moved_axes(attrs: IntegerMeanAttrs, perm: Axes) -> IntegerMeanAttrs:
    return replace(attrs, reduce=reduce_geometry.moved_axes(attrs.reduce, perm))


OP = OpDef(
    "INTEGER_MEAN",
    inputs=("x", "axes"),
    infer=infer,
    forward=Kernel(forward, reads=("x",), writes=("y",), workspace=workspace, prepare=prepare),
    grads={},
    stops=("x",),
    static=("axes",),
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=later_axes,
    permute=moved_axes,
)
