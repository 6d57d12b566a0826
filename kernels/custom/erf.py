"""CUSTOM:Erf: y = 2/√π ∫₀ˣ exp(−t²) dt, element by element; dx = dy · 2/√π · exp(−x²).

Source: Erf of TensorFlow and of ONNX.
"""

from math import pi, sqrt

import numpy as np

from odt.kernels.families.elementwise import BOOL, tiles, unary
from odt.kernels.families.erf import erf
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import TILE, Array, Attrs, Specs, TensorSpec


def tile(attrs: Attrs, s: Specs) -> Specs:
    size = min(s["x"].size, TILE)
    work = TensorSpec((3, size), s["x"].dtype)
    return {"work": work, "mask": TensorSpec((size,), BOOL)}


def forward(attrs: None, *, x: Array, y: Array, work: Array, mask: Array) -> None:
    for piece, out, (values, u, v), inside in tiles(work, mask, x, y):
        erf(piece, values, u, v, inside)
        np.copyto(out, values)


def grad_x(attrs: None, *, dy: Array, x: Array, dx: Array, part: Array) -> None:
    np.multiply(x, x, out=part)
    np.negative(part, out=part)
    np.exp(part, out=part)
    np.multiply(part, 2 / sqrt(pi), out=part)
    np.multiply(dy, part, out=dx)


OP = unary(
    "CUSTOM:Erf",
    forward,
    grad_x,
    reads=("x",),
    over=("dy", "x"),
    workspace=tile,
    back_workspace=lambda attrs, s: {"part": s["x"]},
    compiled=elementwise.kernel("erf", "y", ("x",)),
    compiled_back=elementwise.kernel("erf_back", "dx", ("dy", "x")),
)
