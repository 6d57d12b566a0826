"""LOCAL_RESPONSE_NORMALIZATION along the last axis: y = x s^−β, s = b + α Σₘ xₘ².

x, y (…, C); m runs over the channels at most `radius` away, of those that exist.

dx = dy s^−β − 2αβ x Σₘ dyₘ xₘ sₘ^(−β−1)

Source: LocalResponseNormalizationOptions in the TFLite schema; Krizhevsky et al. 2012, section 3.3.
"""

from collections.abc import Mapping

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.geometry.axes import same
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Options, Specs


@dataclass(frozen=True, slots=True)
class LocalResponseAttrs:
    """Channels on each side, b, α and β."""

    radius: int
    bias: float
    alpha: float
    beta: float


def attrs(options: Options, statics: Mapping[str, Array]) -> LocalResponseAttrs:
    radius = int(options.get("radius", 0))
    if radius < 0:
        raise ShapeError(f"radius must be 0 or more, but got {radius}")
    bias, alpha, beta = (float(options.get(name, 0)) for name in ("bias", "alpha", "beta"))
    return LocalResponseAttrs(radius, bias, alpha, beta)


def infer(attrs: LocalResponseAttrs, s: Specs) -> Specs:
    x = s["x"]
    if not x.shape or x.dtype.kind != "f":
        raise ShapeError(f"x must be (…, C) of a float type, but got {x}")
    return {"y": x}


def mixes_samples(attrs: LocalResponseAttrs, s: Specs, batched: Names) -> bool:
    return len(s["x"].shape) == 1


def scratch(attrs: LocalResponseAttrs, s: Specs) -> Specs:
    return {"terms": s["x"], "sums": s["x"]}


def back_scratch(attrs: LocalResponseAttrs, s: Specs) -> Specs:
    return {**scratch(attrs, s), "power": s["x"]}


def add_neighbors(radius: int, terms: Array, sums: Array) -> None:
    """Computes the sums over the channels at most `radius` away."""
    np.copyto(sums, terms)
    for k in range(1, min(radius, terms.shape[-1] - 1) + 1):
        np.add(sums[..., k:], terms[..., :-k], out=sums[..., k:])
        np.add(sums[..., :-k], terms[..., k:], out=sums[..., :-k])


def sums_of_squares(attrs: LocalResponseAttrs, x: Array, terms: Array, sums: Array) -> None:
    """Computes s."""
    np.multiply(x, x, out=terms)
    add_neighbors(attrs.radius, terms, sums)
    np.multiply(sums, attrs.alpha, out=sums)
    np.add(sums, attrs.bias, out=sums)


def forward(attrs: LocalResponseAttrs, *, x: Array, y: Array, terms: Array, sums: Array) -> None:
    sums_of_squares(attrs, x, terms, sums)
    np.power(sums, -attrs.beta, out=sums)
    np.multiply(x, sums, out=y)


def grad_x(
    attrs: LocalResponseAttrs,
    *,
    dy: Array,
    x: Array,
    dx: Array,
    terms: Array,
    sums: Array,
    power: Array,
) -> None:
    sums_of_squares(attrs, x, terms, sums)
    np.power(sums, -attrs.beta, out=power)
    np.multiply(dy, power, out=power)  # dy s^−β
    np.divide(power, sums, out=terms)
    np.multiply(terms, x, out=terms)
    add_neighbors(attrs.radius, terms, sums)
    np.multiply(sums, x, out=sums)
    np.multiply(sums, 2 * attrs.alpha * attrs.beta, out=sums)
    np.subtract(power, sums, out=dx)


OP = OpDef(
    "LOCAL_RESPONSE_NORMALIZATION",
    inputs=("x",),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x",),
        writes=("y",),
        workspace=scratch,
        may_alias=frozenset({("y", "x")}),
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "x"),
            writes=("dx",),
            workspace=back_scratch,
            may_alias=frozenset({("dx", "dy"), ("dx", "x")}),
        )
    },
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=same,
)
