"""ROPE: rotary position embedding; rotates pairs of values by angles from sine and cosine tables.

x, y (N, S, T, D), D even    sin, cos (…, D), broadcast to x
With x₀, x₁ the two halves of a row, and sin₀, sin₁, cos₀, cos₁ those of the tables (mode GPT_NEOX):
y₀ = x₀ cos₀ − x₁ sin₀      y₁ = x₀ sin₁ + x₁ cos₁
dx₀ = dy₀ cos₀ + dy₁ sin₁      dx₁ = dy₁ cos₁ − dy₀ sin₀

The tables are not weights and have no gradient. onert reads only the first row of each table, which
gives the same result if there is one row. Source: RoPEOptions in the Circle schema.
"""

from collections.abc import Callable, Mapping

import numpy as np

from odt.errors import ShapeError
from odt.kernels.native.binding import bind
from odt.kernels.native.float32 import FLOAT
from odt.kernels.rows.opdef import (
    Array,
    Compiled,
    Kernel,
    Names,
    OpDef,
    Options,
    Specs,
    TensorSpec,
)

GPT_NEOX = 0


def attrs(options: Options, statics: Mapping[str, Array]) -> int:
    return int(options.get("mode", GPT_NEOX))


def infer(mode: int, s: Specs) -> Specs:
    x, sin, cos = s["x"], s["sin"], s["cos"]
    if mode != GPT_NEOX:
        raise ShapeError(f"mode must be GPT_NEOX (0), but got {mode}")
    try:
        fits = sin == cos and np.broadcast_shapes(x.shape, sin.shape) == x.shape
        fits = fits and sin.dtype == x.dtype
    except ValueError:
        fits = False
    if not fits or len(x.shape) != 4 or x.shape[3] % 2 or sin.shape[-1:] != x.shape[3:]:
        raise ShapeError(
            "x must be (N, S, T, D) with D even, and sin and cos (…, D) alike, of x's type, "
            f"but got x {x}, sin {sin}, cos {cos}"
        )
    return {"y": x}


def mixes_samples(mode: int, s: Specs, batched: Names) -> bool:
    return any(len(s[n].shape) != 4 for n in batched)


def half(mode: int, s: Specs) -> Specs:
    x = s["x"]
    return {"part": TensorSpec((*x.shape[:3], x.shape[3] // 2), x.dtype)}


def halves(a: Array) -> tuple[Array, Array]:
    middle = a.shape[-1] // 2
    return a[..., :middle], a[..., middle:]


def turn(a: Array, out: Array, part: Array, up: Array, down: Array, cos: Array) -> None:
    """Computes out₀ = a₀ cos₀ + a₁ up and out₁ = a₁ cos₁ + a₀ down."""
    (a0, a1), (out0, out1), (cos0, cos1) = halves(a), halves(out), halves(cos)
    np.multiply(a1, up, out=part)
    np.multiply(a0, cos0, out=out0)
    np.add(out0, part, out=out0)
    np.multiply(a0, down, out=part)
    np.multiply(a1, cos1, out=out1)
    np.add(out1, part, out=out1)


def signs(mode: int, s: Specs) -> Specs:
    sin = s["sin"]
    return {**half(mode, s), "minus": TensorSpec((*sin.shape[:-1], sin.shape[-1] // 2), sin.dtype)}


def forward(
    mode: int, *, x: Array, sin: Array, cos: Array, y: Array, part: Array, minus: Array
) -> None:
    sin0, sin1 = halves(sin)
    turn(x, y, part, np.negative(sin0, out=minus), sin1, cos)


def grad_x(
    mode: int, *, dy: Array, sin: Array, cos: Array, dx: Array, part: Array, minus: Array
) -> None:
    sin0, sin1 = halves(sin)
    turn(dy, dx, part, sin1, np.negative(sin0, out=minus), cos)


def fits(mode: int, s: Specs) -> bool:
    """Whether all images and heads have the same tables, of one row or of T rows."""
    x, sin = s["x"], s["sin"]
    if x.dtype != FLOAT or x.size == 0:
        return False
    return sin.shape[-2:-1] in ((), (sin.size // x.shape[3],))


def rotate(x: Array, sin: Array, cos: Array, y: Array, *, back: bool) -> Callable[[], None]:
    rows, places, half = x.size // x.shape[3], sin.size // x.shape[3], x.shape[3] // 2
    return bind("rotate", x, sin, cos, y, rows, places, half, int(back))


def call_forward(mode: int, *, x: Array, sin: Array, cos: Array, y: Array) -> Callable[[], None]:
    return rotate(x, sin, cos, y, back=False)


def call_grad_x(mode: int, *, dy: Array, sin: Array, cos: Array, dx: Array) -> Callable[[], None]:
    return rotate(dy, sin, cos, dx, back=True)


OP = OpDef(
    "ROPE",
    inputs=("x", "sin", "cos"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x", "sin", "cos"),
        writes=("y",),
        workspace=signs,
        compiled=Compiled(call_forward, fits),
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "sin", "cos"),
            writes=("dx",),
            workspace=signs,
            compiled=Compiled(call_grad_x, fits),
        )
    },
    stops=("sin", "cos"),
    attrs=attrs,
    mixes_samples=mixes_samples,
)
