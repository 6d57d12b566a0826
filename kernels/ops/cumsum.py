"""CUMSUM: cumulative sums of x along an axis.

y[i] = Σ x[j] over j ≤ i; with `exclusive` over j < i; with `reverse` from the end: j ≥ i or j > i.

dx is the cumulative sum of dy in the other direction. Source: tf.cumsum.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.geometry.axes import later_axis, moved_axis
from odt.kernels.geometry.statics import number
from odt.kernels.native.scans import CUMSUM, CUMSUM_BACK
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Options, Specs
from odt.kernels.rows.quantizeddef import QuantizedDef


@dataclass(frozen=True, slots=True)
class CumsumAttrs:
    axis: int
    exclusive: bool
    reverse: bool


def attrs(options: Options, statics: Mapping[str, Array]) -> CumsumAttrs:
    exclusive, reverse = (bool(options.get(name, False)) for name in ("exclusive", "reverse"))
    return CumsumAttrs(number("axis", statics), exclusive, reverse)


def infer(attrs: CumsumAttrs, s: Specs) -> Specs:
    x = s["x"]
    if not -len(x.shape) <= attrs.axis < len(x.shape):
        raise ShapeError(f"axis must be one of x's, but got {attrs.axis}, x {x}")
    return {"y": x}


def mixes_samples(attrs: CumsumAttrs, s: Specs, batched: Names) -> bool:
    return attrs.axis % len(s["x"].shape) == 0


def forward(attrs: CumsumAttrs, *, x: Array, y: Array) -> None:
    x, y = (np.moveaxis(a, attrs.axis, 0) for a in (x, y))
    if attrs.reverse:
        x, y = x[::-1], y[::-1]
    if attrs.exclusive:
        y[:1] = 0
        x, y = x[:-1], y[1:]
    np.add.accumulate(x, axis=0, dtype=y.dtype, out=y)


def grad_x(attrs: CumsumAttrs, *, dy: Array, dx: Array) -> None:
    forward(replace(attrs, reverse=not attrs.reverse), x=dy, y=dx)


OP = OpDef(
    "CUMSUM",
    inputs=("x", "axis"),
    infer=infer,
    forward=Kernel(forward, reads=("x",), writes=("y",), compiled=CUMSUM),
    grads={"x": Kernel(grad_x, reads=("dy",), writes=("dx",), compiled=CUMSUM_BACK)},
    static=("axis",),
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=later_axis,
    permute=moved_axis,
    quantized=QuantizedDef(refused=True),
)
