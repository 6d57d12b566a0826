"""INTEGER_SOFTMAX over the last axis of a quantized tensor.

x, y (…, K)

e = rint(2³⁰ exp(β s_x (x − max x))), from a table; y = clip(rint(e / (s_y Σ e)) + z_y). The sum is
exact and the quotient float64, so the result is the same in every order.
Source: SoftmaxOptions in the TFLite schema.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.requantize import Rounding, Tensors, quantized, rounding
from odt.kernels.geometry.axes import same
from odt.kernels.geometry.quantize import limits
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Options, Specs, TensorSpec

ONE = 2.0**30  # the table's value of exp(0)


@dataclass(frozen=True, slots=True)
class IntegerSoftmaxAttrs:
    """β times the scale of x, the scale of y, and the rounding of y."""

    step: float
    scale: float
    to: Rounding


def attrs(options: Options, statics: Mapping[str, Array]) -> IntegerSoftmaxAttrs:
    x, y = (quantized(options)[n] for n in "xy")
    beta = float(options.get("beta", 1.0))
    step = x.scale * beta
    if not 0 < step < np.inf:
        raise ShapeError(f"beta must be above 0, but got {beta:g}")
    return IntegerSoftmaxAttrs(step, y.scale, rounding(options))


def constants(tensors: Tensors) -> Mapping[str, Array]:
    return {}


def infer(attrs: IntegerSoftmaxAttrs, s: Specs) -> Specs:
    x = s["x"]
    if not x.shape or not x.size:
        raise ShapeError(f"x must be (…, K), but got {x}")
    return {"y": TensorSpec(x.shape, attrs.to.dtype)}


def table(attrs: IntegerSoftmaxAttrs, s: Specs) -> Mapping[str, Any]:
    """Prepares 2³⁰ exp(−β s_x d) for all distances d from the maximum."""
    lo, hi = limits(s["x"].dtype)
    return {"table": np.rint(ONE * np.exp(-attrs.step * np.arange(hi - lo + 1))).astype(np.int64)}


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
