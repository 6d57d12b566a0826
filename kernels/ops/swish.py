"""SWISH: y = x σ(x), where σ is LOGISTIC. A MUL and a LOGISTIC of a file become a SWISH.

dx = dy σ(x) (1 + x (1 − σ(x)))

The gradients of the two operators would need σ(x) in memory until the backward phase. Both passes
compute tiles that stay in the cache. Source: Elfwing, Uchibe and Doya 2017, "Sigmoid-Weighted
Linear Units".
"""

import numpy as np

from odt.kernels.families.elementwise import unary
from odt.kernels.native import elementwise
from odt.kernels.ops import logistic
from odt.kernels.rows.opdef import TILE, Array, Attrs, Specs, TensorSpec


def scratch(attrs: Attrs, s: Specs) -> Specs:
    return {"work": TensorSpec((2, min(s["x"].size, TILE)), s["x"].dtype)}


def forward(attrs: None, *, x: Array, y: Array, work: Array) -> None:
    xs, ys = (a.reshape(-1, copy=False) for a in (x, y))
    for at in range(0, xs.size, TILE):
        part, out = xs[at : at + TILE], ys[at : at + TILE]
        sigma = work[0, : part.size]
        logistic.forward(None, x=part, y=sigma)
        np.multiply(part, sigma, out=out)


def grad_x(attrs: None, *, dy: Array, x: Array, dx: Array, work: Array) -> None:
    xs, dys, dxs = (a.reshape(-1, copy=False) for a in (x, dy, dx))
    for at in range(0, xs.size, TILE):
        part, dy_part, out = (a[at : at + TILE] for a in (xs, dys, dxs))
        sigma, slope = work[:, : part.size]
        logistic.forward(None, x=part, y=sigma)
        np.subtract(1, sigma, out=slope)
        np.multiply(slope, part, out=slope)
        np.add(slope, 1, out=slope)
        np.multiply(slope, sigma, out=slope)
        np.multiply(dy_part, slope, out=out)


OP = unary(
    "SWISH",
    forward,
    grad_x,
    reads=("x",),
    over=("dy", "x"),
    workspace=scratch,
    back_workspace=scratch,
    compiled=elementwise.kernel("swish", "y", ("x",)),
    compiled_back=elementwise.kernel("swish_back", "dx", ("dy", "x")),
)
