"""GELU: y = x Φ(x), where Φ is the standard normal distribution function, exact or approximated.

Exact: Φ = (1 + erf(x / √2)) / 2                   dx = dy (Φ + x exp(−x²/2) / √(2π))
approximate: Φ = (1 + t) / 2, t = tanh √(2/π) (x + c x³), c = 0.044715
                                                   dx = dy (Φ + x (1 − t²) (1 + 3 c x²) / √(2π))

Both forms compute tiles that stay in the cache. Source: Hendrycks and Gimpel 2016;
GeluOptions in the TFLite schema.
"""

from collections.abc import Mapping
from math import pi, sqrt

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.families.elementwise import BOOL, tiles, unary
from odt.kernels.families.erf import erf
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import TILE, Array, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef

CUBIC = 0.044715


@dataclass(frozen=True, slots=True)
class GeluAttrs:
    approximate: bool


def attrs(options: Options, statics: Mapping[str, Array]) -> GeluAttrs:
    return GeluAttrs(bool(options.get("approximate", False)))


def compiled(attrs: GeluAttrs) -> str:
    return "gelu_by_tanh" if attrs.approximate else "gelu"


def compiled_back(attrs: GeluAttrs) -> str:
    return f"{compiled(attrs)}_back"


def scratch(attrs: GeluAttrs, s: Specs) -> Specs:
    size = min(s["x"].size, TILE)
    return {"work": TensorSpec((4, size), s["x"].dtype), "mask": TensorSpec((size,), BOOL)}


def twice_phi(x: Array, approximate: bool, out: Array, work: Array, mask: Array) -> None:
    """Computes out = 2 Φ(x); work holds three arrays of scratch."""
    if approximate:
        np.multiply(x, x, out=out)
        np.multiply(out, CUBIC, out=out)
        np.add(out, 1, out=out)
        np.multiply(out, x, out=out)
        np.multiply(out, sqrt(2 / pi), out=out)
        np.tanh(out, out=out)
    else:
        np.multiply(x, sqrt(0.5), out=work[0])
        erf(work[0], out, work[1], work[2], mask)
    np.add(out, 1, out=out)


def slope(x: Array, approximate: bool, phi2: Array, out: Array, other: Array) -> None:
    """Computes out = 2 Φ'(x) from phi2 = 2 Φ(x)."""
    np.multiply(x, x, out=out)
    if approximate:
        np.multiply(out, 3 * CUBIC, out=out)
        np.add(out, 1, out=out)
        np.multiply(out, phi2, out=out)  # 1 − t² = 2Φ (2 − 2Φ)
        np.subtract(2, phi2, out=other)
        np.multiply(out, other, out=out)
    else:
        np.multiply(out, -0.5, out=out)
        np.exp(out, out=out)
    np.multiply(out, sqrt(2 / pi), out=out)


def forward(attrs: GeluAttrs, *, x: Array, y: Array, work: Array, mask: Array) -> None:
    for xt, yt, wt, mt in tiles(work, mask, x, y):
        twice_phi(xt, attrs.approximate, wt[0], wt[1:], mt)
        np.multiply(wt[0], 0.5, out=wt[0])
        np.multiply(xt, wt[0], out=yt)


def grad_x(attrs: GeluAttrs, *, dy: Array, x: Array, dx: Array, work: Array, mask: Array) -> None:
    for xt, dyt, dxt, wt, mt in tiles(work, mask, x, dy, dx):
        twice_phi(xt, attrs.approximate, wt[0], wt[1:], mt)
        slope(xt, attrs.approximate, wt[0], wt[1], wt[2])
        np.multiply(wt[1], xt, out=wt[1])
        np.add(wt[0], wt[1], out=wt[0])
        np.multiply(wt[0], 0.5, out=wt[0])
        np.multiply(dyt, wt[0], out=dxt)


OP = unary(
    "GELU",
    forward,
    grad_x,
    reads=("x",),
    over=("dy", "x"),
    attrs=attrs,
    workspace=scratch,
    back_workspace=scratch,
    compiled=elementwise.kernel(compiled, "y", ("x",)),
    compiled_back=elementwise.kernel(compiled_back, "dx", ("dy", "x")),
    quantized=QuantizedDef(versions={"INT8": 2, "UINT8": 2}),
)
