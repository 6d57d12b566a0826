"""LOG_SOFTMAX over the last axis: yₖ = xₖ − ln Σⱼ exp xⱼ.

x, y (…, K)

dx = dy − exp(y) Σₖ dyₖ

The maximum is subtracted from x first, so that no exponential overflows.
"""

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.softmax import rows, shift_by_max
from odt.kernels.geometry.axes import same
from odt.kernels.native import softmax
from odt.kernels.rows.opdef import Array, Attrs, Kernel, Names, OpDef, Specs
from odt.kernels.rows.quantizeddef import QuantizedDef


def infer(attrs: Attrs, s: Specs) -> Specs:
    x = s["x"]
    if not x.shape or not x.size or x.dtype.kind != "f":
        raise ShapeError(f"x must be (…, K) of a float type and not empty, but got {x}")
    return {"y": x}


def mixes_samples(attrs: Attrs, s: Specs, batched: Names) -> bool:
    return len(s["x"].shape) == 1


def scratch(attrs: Attrs, s: Specs) -> Specs:
    return {**rows(attrs, s), "part": s["x"]}


def forward(attrs: None, *, x: Array, y: Array, row: Array, part: Array) -> None:
    x2, y2, part2 = (a.reshape(-1, x.shape[-1], copy=False) for a in (x, y, part))
    shift_by_max(x2, 1.0, y2, row)
    np.exp(y2, out=part2)
    np.sum(part2, axis=1, keepdims=True, out=row)
    np.log(row, out=row)
    np.subtract(y2, row, out=y2)


def grad_x(attrs: None, *, dy: Array, y: Array, dx: Array, row: Array) -> None:
    dy2, y2, dx2 = (a.reshape(-1, y.shape[-1], copy=False) for a in (dy, y, dx))
    np.sum(dy2, axis=1, keepdims=True, out=row)
    np.exp(y2, out=dx2)
    np.multiply(dx2, row, out=dx2)
    np.subtract(dy2, dx2, out=dx2)


OP = OpDef(
    "LOG_SOFTMAX",
    inputs=("x",),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x",),
        writes=("y",),
        workspace=scratch,
        may_alias=frozenset({("y", "x")}),
        compiled=softmax.LOG_SOFTMAX,
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "y"),
            writes=("dx",),
            workspace=rows,
            may_alias=frozenset({("dx", "y")}),
            compiled=softmax.LOG_SOFTMAX_BACK,
        )
    },
    mixes_samples=mixes_samples,
    add_batch_axis=same,
    quantized=QuantizedDef(versions={"INT8": 2}),
)
