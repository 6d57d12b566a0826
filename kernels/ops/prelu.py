"""PRELU: y = x if x > 0, else α x, with α broadcast.

x, y (N, …, C)    alpha broadcast to x

dx = dy if x > 0, else α dy
dα = dy · min(x, 0), summed over the axes along which α is broadcast
"""

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.binary import gradient
from odt.kernels.families.elementwise import mask_like_y, part_like_y
from odt.kernels.geometry.axes import same
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import Array, Attrs, Kernel, OpDef, Specs
from odt.kernels.rows.quantizeddef import QuantizedDef


def infer(attrs: Attrs, s: Specs) -> Specs:
    x, alpha = s["x"], s["alpha"]
    tail = x.shape[len(x.shape) - len(alpha.shape) :]
    fits = len(alpha.shape) <= len(x.shape) and all(
        n in (1, m) for n, m in zip(alpha.shape, tail, strict=True)
    )
    if not fits or x.dtype != alpha.dtype or x.dtype.kind != "f":
        raise ShapeError(
            f"alpha must match x from the last axis on, of one float type, "
            f"but got x {x}, alpha {alpha}"
        )
    return {"y": x}


def forward(attrs: None, *, x: Array, alpha: Array, y: Array, part: Array) -> None:
    np.minimum(x, 0, out=part)
    np.multiply(part, alpha, out=part)
    np.maximum(x, 0, out=y)
    np.add(y, part, out=y)


def grad_x(attrs: None, *, dy: Array, x: Array, alpha: Array, dx: Array, mask: Array) -> None:
    np.less_equal(x, 0, out=mask)
    np.copyto(dx, dy)
    np.multiply(dx, alpha, out=dx, where=mask)


def d_alpha(attrs: None, *, dy: Array, x: Array, out: Array) -> None:
    np.minimum(x, 0, out=out)
    np.multiply(out, dy, out=out)


OP = OpDef(
    "PRELU",
    inputs=("x", "alpha"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x", "alpha"),
        writes=("y",),
        workspace=part_like_y,
        may_alias=frozenset({("y", "x")}),
        compiled=elementwise.kernel("prelu", "y", ("x", "x", "alpha")),
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "x", "alpha"),
            writes=("dx",),
            workspace=mask_like_y,
            may_alias=frozenset({("dx", "dy")}),
            compiled=elementwise.kernel("prelu", "dx", ("dy", "x", "alpha")),
        ),
        "alpha": gradient(
            "alpha",
            d_alpha,
            ("dy", "x"),
            compiled=elementwise.kernel("prelu_back", "dalpha", ("dy", "x")),
        ),
    },
    permute=same,
    quantized=QuantizedDef(int8=True),
)
