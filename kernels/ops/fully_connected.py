"""FULLY_CONNECTED: dense layer, y = x wᵀ + b.

x (…, I)    w (O, I)    b (O,) or absent    y (N, O), or (…, O) with keep_num_dims

With x as (N, I) and dy as (N, O):
dx = dy w       dw = dyᵀ x       db = Σₙ dy

Source: FullyConnectedOptions in the TFLite schema. A fused activation is a separate node in the
lowered graph, so it does not appear here.
"""

from collections.abc import Mapping

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.bias import GRAD_B
from odt.kernels.geometry.axes import same
from odt.kernels.native import dense
from odt.kernels.rows.opdef import (
    Arithmetic,
    Array,
    Kernel,
    Names,
    OpDef,
    Options,
    Specs,
    TensorSpec,
)
from odt.kernels.rows.quantizeddef import Layer, QuantizedDef


@dataclass(frozen=True, slots=True)
class FullyConnectedAttrs:
    keep_num_dims: bool = False


def attrs(options: Options, statics: Mapping[str, Array]) -> FullyConnectedAttrs:
    if options.get("weights_format", 0) != 0:
        raise ShapeError(f"weights_format must be DEFAULT (0), but got {options['weights_format']}")
    return FullyConnectedAttrs(bool(options.get("keep_num_dims", False)))


def infer(attrs: FullyConnectedAttrs, s: Specs) -> Specs:
    x, w = s["x"], s["w"]
    if len(w.shape) != 2 or not w.size or not x.shape or x.size % w.shape[1]:
        raise ShapeError(
            f"x must be (…, I) and w (O, I) with one I, w not empty, but got x {x}, w {w}"
        )
    units, width = w.shape
    if attrs.keep_num_dims and x.shape[-1] != width:
        raise ShapeError(f"x must end in I = {width} with keep_num_dims, but got x {x}")
    if x.dtype != w.dtype:
        raise ShapeError(f"x and w must have one dtype, but got x {x}, w {w}")
    if "b" in s and (s["b"].shape != (units,) or s["b"].dtype != w.dtype):
        raise ShapeError(f"b must be ({units},) {w.dtype}, but got {s['b']}")
    lead = x.shape[:-1] if attrs.keep_num_dims else (x.size // width,)
    return {"y": TensorSpec((*lead, units), x.dtype)}


def mixes_samples(attrs: FullyConnectedAttrs, s: Specs, batched: Names) -> bool:
    """Whether a row holds values of several samples, as for x (N, 2) and w (O, 4)."""
    x, w = s["x"].shape, s["w"].shape
    return "w" in batched or (bool(x[0]) and (s["x"].size // x[0]) % w[1] != 0)


def rows(a: Array, width: int) -> Array:
    return a.reshape(-1, width, copy=False)


def forward(
    attrs: FullyConnectedAttrs, *, x: Array, w: Array, b: Array | None = None, y: Array
) -> None:
    np.matmul(rows(x, w.shape[1]), w.T, out=rows(y, w.shape[0]))
    if b is not None:
        np.add(y, b, out=y)


def grad_x(attrs: FullyConnectedAttrs, *, dy: Array, w: Array, dx: Array) -> None:
    np.matmul(rows(dy, w.shape[0]), w, out=rows(dx, w.shape[1]))


def grad_w(attrs: FullyConnectedAttrs, *, dy: Array, x: Array, dw: Array) -> None:
    columns, x_rows = rows(dy, dw.shape[0]).T, rows(x, dw.shape[1])
    if len(x_rows) == 1:  # an outer product, which takes BLAS five times as long
        np.multiply(columns, x_rows, out=dw)
    else:
        np.matmul(columns, x_rows, out=dw)


def flops(attrs: FullyConnectedAttrs, s: Specs) -> int:
    return 2 * s["y"].size * s["w"].shape[1]


OP = OpDef(
    "FULLY_CONNECTED",
    inputs=("x", "w", "b?"),
    infer=infer,
    forward=Kernel(forward, reads=("x", "w", "b?"), writes=("y",), compiled=dense.FORWARD),
    grads={
        "x": Kernel(grad_x, reads=("dy", "w"), writes=("dx",), compiled=dense.GRAD_X),
        "w": Kernel(grad_w, reads=("dy", "x"), writes=("dw",), compiled=dense.GRAD_W),
        "b": GRAD_B,
    },
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=same,
    flops=flops,
    arithmetic=Arithmetic.DENSE,
    quantized=QuantizedDef(
        versions={"INT8": 4, "INT16": 7},
        int8=True,
        int16=True,
        hybrid=("int8", "int4"),
        layers=(Layer(x=0, w=1, b=2, axis=0),),
        needs_scale=True,
        implies_activation=True,
    ),
)
