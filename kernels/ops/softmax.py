"""SOFTMAX over the last axis: yₖ = exp(β xₖ) / Σⱼ exp(β xⱼ).

x, y (…, K)

dx = β y (dy − Σₖ dyₖ yₖ)

The maximum is subtracted from β x first, so that no exponential overflows.
Source: SoftmaxOptions in the TFLite schema.
"""

from collections.abc import Mapping

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.softmax import rows, softmax
from odt.kernels.geometry.axes import same
from odt.kernels.native import softmax as compiled
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Options, Specs
from odt.kernels.rows.quantizeddef import QuantizedDef


@dataclass(frozen=True, slots=True)
class SoftmaxAttrs:
    beta: float = 1.0


def attrs(options: Options, statics: Mapping[str, Array]) -> SoftmaxAttrs:
    return SoftmaxAttrs(float(options.get("beta", 1.0)))


def infer(attrs: SoftmaxAttrs, s: Specs) -> Specs:
    x = s["x"]
    if not x.shape or not x.size or x.dtype.kind != "f":
        raise ShapeError(f"x must be (…, K) of a float type and not empty, but got {x}")
    return {"y": x}


def mixes_samples(attrs: SoftmaxAttrs, s: Specs, batched: Names) -> bool:
    return len(s["x"].shape) == 1


def forward(attrs: SoftmaxAttrs, *, x: Array, y: Array, row: Array) -> None:
    classes = x.shape[-1]
    softmax(x.reshape(-1, classes, copy=False), attrs.beta, y.reshape(-1, classes, copy=False), row)


def product(attrs: SoftmaxAttrs, s: Specs) -> Specs:
    return {**rows(attrs, s), "product": s["y"]}


def grad_x(
    attrs: SoftmaxAttrs, *, dy: Array, y: Array, dx: Array, row: Array, product: Array
) -> None:
    dy2, y2, dx2, product2 = (a.reshape(-1, y.shape[-1], copy=False) for a in (dy, y, dx, product))
    np.multiply(dy2, y2, out=product2)
    np.sum(product2, axis=1, keepdims=True, out=row)
    np.subtract(dy2, row, out=dx2)
    np.multiply(dx2, y2, out=dx2)
    if attrs.beta != 1:
        np.multiply(dx2, attrs.beta, out=dx2)


OP = OpDef(
    "SOFTMAX",
    inputs=("x",),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x",),
        writes=("y",),
        workspace=rows,
        may_alias=frozenset({("y", "x")}),
        compiled=compiled.SOFTMAX,
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "y"),
            writes=("dx",),
            workspace=product,
            may_alias=frozenset({("dx", "dy")}),
            compiled=compiled.SOFTMAX_BACK,
        )
    },
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=same,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 3},
        int8=True,
        int16=True,
        needs_scale=True,
        range=(0.0, 1.0),
        checks_scales=True,
    ),
)
