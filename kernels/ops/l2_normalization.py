"""L2_NORMALIZATION over the last axis: y = x / max(‖x‖, 1e-6).

x, y (…, K)    norm (…, 1), for backward

dx = (dy − y Σₖ dyₖ yₖ) / ‖x‖, or dy / 1e-6 if ‖x‖ ≤ 1e-6

Source: TFLite's reference kernel, which has the constant 1e-6.
"""

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.elementwise import BOOL
from odt.kernels.geometry.axes import same
from odt.kernels.native import normalization
from odt.kernels.rows.opdef import Array, Attrs, Kernel, Names, OpDef, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef

SMALLEST = 1e-6
COMPILED, COMPILED_BACK = normalization.l2(SMALLEST)


def infer(attrs: Attrs, s: Specs) -> Specs:
    x = s["x"]
    if not x.shape or not x.size or x.dtype.kind != "f":
        raise ShapeError(f"x must be (…, K) of a float type and not empty, but got {x}")
    return {"y": x}


def mixes_samples(attrs: Attrs, s: Specs, batched: Names) -> bool:
    return len(s["x"].shape) == 1


def row_norms(attrs: Attrs, s: Specs) -> Specs:
    x = s["x"]
    return {"norm": TensorSpec((*x.shape[:-1], 1), x.dtype)}


def product(attrs: Attrs, s: Specs) -> Specs:
    return {"product": s["x"]}


def back_scratch(attrs: Attrs, s: Specs) -> Specs:
    norm = s["norm"]
    return {"product": s["x"], "row": norm, "small": TensorSpec(norm.shape, BOOL)}


def forward(attrs: None, *, x: Array, y: Array, norm: Array, product: Array) -> None:
    np.multiply(x, x, out=product)
    np.sum(product, axis=-1, keepdims=True, out=norm)
    np.sqrt(norm, out=norm)
    np.maximum(norm, SMALLEST, out=norm)
    np.divide(x, norm, out=y)


def grad_x(
    attrs: None,
    *,
    dy: Array,
    y: Array,
    norm: Array,
    dx: Array,
    product: Array,
    row: Array,
    small: Array,
) -> None:
    np.multiply(dy, y, out=product)
    np.sum(product, axis=-1, keepdims=True, out=row)
    np.less_equal(norm, SMALLEST, out=small)
    np.copyto(row, 0, where=small)
    np.multiply(y, row, out=product)
    np.subtract(dy, product, out=dx)
    np.divide(dx, norm, out=dx)


OP = OpDef(
    "L2_NORMALIZATION",
    inputs=("x",),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x",),
        writes=("y", "norm"),
        workspace=product,
        may_alias=frozenset({("y", "x")}),
        compiled=COMPILED,
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "y", "norm"),
            writes=("dx",),
            workspace=back_scratch,
            may_alias=frozenset({("dx", "dy"), ("dx", "y")}),
            compiled=COMPILED_BACK,
        )
    },
    aux=row_norms,
    mixes_samples=mixes_samples,
    add_batch_axis=same,
    quantized=QuantizedDef(versions={"INT8": 2}, int8=True, range=(-1.0, 1.0), checks_scales=True),
)
