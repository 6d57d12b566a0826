"""CUSTOM:TransformLandmarks: maps points by the first two rows of a matrix.

x (N, L, D), D = 2 or 3    m (N, 4, 4)    y (N, L, D)

(y₀, y₁) = A (x₀, x₁) + t, with A the first two columns of the rows, t the last one, and y₂ = x₂.
(dx₀, dx₁) = Aᵀ (dy₀, dy₁)      dA = Σ (dy₀, dy₁) (x₀, x₁)ᵀ      dt = Σ (dy₀, dy₁)

Version 1: x, y (N, H, W, L D), D an option, and t is multiplied by the option `scale`.
Source: transform_landmarks.cc in MediaPipe.
"""

from collections.abc import Mapping

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.geometry.flex_map import has_field, unpack_map
from odt.kernels.rows.opdef import Array, Kernel, OpDef, Options, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class PointAttrs:
    """Numbers of a point, `D`, in version 1, and factor of the translation.

    Attributes:
        dimensions: None in version 2: the last axis of x.
    """

    dimensions: int | None = None
    scale: float = 1.0


def attrs(options: Options, statics: Mapping[str, Array]) -> PointAttrs:
    if not options.get("custom_options"):
        return PointAttrs()
    numbers = {"dimensions": 3.0, "scale": 1.0}
    for name in numbers:
        if has_field(options, name):
            (numbers[name],) = unpack_map(options, {name: 1})[name]
    return PointAttrs(int(numbers["dimensions"]), numbers["scale"])


def infer(attrs: PointAttrs, s: Specs) -> Specs:
    x, m = s["x"], s["m"]
    fits = len(x.shape) == (3 if attrs.dimensions is None else 4) and x.dtype.kind == "f"
    size = (attrs.dimensions or x.shape[-1]) if fits else 0
    if size not in (2, 3) or x.shape[-1] % size:
        raise ShapeError(
            "x must be (N, L, 2 or 3), or (N, H, W, L D) with D = 2 or 3 in version 1, "
            f"but got x {x}, D {attrs.dimensions}"
        )
    if m != TensorSpec((x.shape[0], 4, 4), x.dtype):
        raise ShapeError(f"m must be (N, 4, 4), with x's N and type, but got {m}, x {x}")
    return {"y": x}


def points(attrs: PointAttrs, a: Array) -> Array:
    """Reshapes to (N, points, numbers of a point)."""
    return a.reshape(len(a), -1, attrs.dimensions or a.shape[-1], copy=False)


def forward(attrs: PointAttrs, *, x: Array, m: Array, y: Array) -> None:
    x, y = points(attrs, x), points(attrs, y)
    np.matmul(x[..., :2], m[:, :2, :2].mT, out=y[..., :2])
    for sample, matrix in zip(y, m, strict=True):
        sample[:, :2] += matrix[:2, 3] * attrs.scale
    np.copyto(y[..., 2:], x[..., 2:])


def grad_x(attrs: PointAttrs, *, dy: Array, m: Array, dx: Array) -> None:
    dy, dx = points(attrs, dy), points(attrs, dx)
    np.matmul(dy[..., :2], m[:, :2, :2], out=dx[..., :2])
    np.copyto(dx[..., 2:], dy[..., 2:])


def grad_m(attrs: PointAttrs, *, dy: Array, x: Array, dm: Array) -> None:
    dy, x = points(attrs, dy), points(attrs, x)
    dm.fill(0)
    np.matmul(dy[..., :2].mT, x[..., :2], out=dm[:, :2, :2])
    np.sum(dy[..., :2], axis=1, out=dm[:, :2, 3])
    np.multiply(dm[:, :2, 3], attrs.scale, out=dm[:, :2, 3])


OP = OpDef(
    "CUSTOM:TransformLandmarks",
    inputs=("x", "m"),
    infer=infer,
    forward=Kernel(forward, reads=("x", "m"), writes=("y",)),
    grads={
        "x": Kernel(grad_x, reads=("dy", "m"), writes=("dx",)),
        "m": Kernel(grad_m, reads=("dy", "x"), writes=("dm",)),
    },
    attrs=attrs,
)
