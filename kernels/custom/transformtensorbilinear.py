"""CUSTOM:TransformTensorBilinear: reads images at mapped positions by bilinear interpolation.

x (N, H, W, C)    m (N, 4, 4)    y (N, OH, OW, C)

y[p, q] is x at column t₀ and row t₁, with (t₀, t₁) = rows 0 and 1 of m · (q + h, p + h, 0, 1) − h,
h = ½, and h = 0 in version 1. It is 0 outside [0, W − 1] × [0, H − 1], and elsewhere the sum of the
four nearest pixels with the weights of RESIZE_BILINEAR. dx sums dy times these weights. dt sums dy
times differences of neighboring pixels, and dm = Σ dt (q + h, p + h, 0, 1)ᵀ.

Source: transform_tensor_bilinear.cc in MediaPipe; version 1 is also called TransformTensor.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.gather import INDEX, put
from odt.kernels.geometry.flex_map import has_field, unpack_map
from odt.kernels.native.binding import bind, in_order
from odt.kernels.native.gather import fits, scatter_add
from odt.kernels.rows.opdef import Array, Compiled, Kernel, OpDef, Options, Specs, TensorSpec

BOOL = np.dtype(bool)
CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))  # vertically, horizontally


@dataclass(frozen=True, slots=True)
class SampleAttrs:
    """Height and width of the output, and where the center of pixel 0 is."""

    size: tuple[int, int]
    center: float


def attrs(options: Options, statics: Mapping[str, Array]) -> SampleAttrs:
    if has_field(options, "output_size"):
        height, width = unpack_map(options, {"output_size": 2})["output_size"]
        return SampleAttrs((int(height), int(width)), 0.0)
    fields = unpack_map(options, {"output_height": 1, "output_width": 1})
    return SampleAttrs((int(fields["output_height"][0]), int(fields["output_width"][0])), 0.5)


def infer(attrs: SampleAttrs, s: Specs) -> Specs:
    x, m = s["x"], s["m"]
    if len(x.shape) != 4 or x.dtype.kind != "f" or 0 in x.shape[1:]:
        raise ShapeError(
            f"x must be (N, H, W, C) of a float type, H, W and C 1 or more, but got {x}"
        )
    if m != TensorSpec((x.shape[0], 4, 4), x.dtype):
        raise ShapeError(f"m must be (N, 4, 4), with x's N and type, but got {m}, x {x}")
    if min(attrs.size) < 1:
        raise ShapeError(f"the output's size must be 1 or more, but got {attrs.size}")
    return {"y": TensorSpec((x.shape[0], *attrs.size, x.shape[3]), x.dtype)}


def places(attrs: SampleAttrs, s: Specs) -> Specs:
    """Returns the workspace of `locate`: the positions, and the four pixels with their weights."""
    m, count = s["m"], attrs.size[0] * attrs.size[1]
    n = m.shape[0]
    return {
        "t": TensorSpec((n, 2, count), m.dtype),
        "nearest": TensorSpec((n, 2, count), m.dtype),
        "outside": TensorSpec((n, 2, count), BOOL),
        "at": TensorSpec((n, count, 4), INDEX),
        "weights": TensorSpec((n, count, 4), m.dtype),
    }


def workspace(attrs: SampleAttrs, s: Specs) -> Specs:
    rows = s["m"].shape[0] * attrs.size[0] * attrs.size[1]
    return {**places(attrs, s), "pixels": TensorSpec((rows, 4, s["x"].shape[3]), s["m"].dtype)}


def geometry(attrs: SampleAttrs, s: Specs) -> Mapping[str, Any]:
    n, height, width, _ = s["x"].shape
    grid = np.zeros((4, attrs.size[0] * attrs.size[1]), s["x"].dtype)
    grid[1], grid[0] = np.indices(attrs.size).reshape(2, -1) + attrs.center
    grid[3] = 1
    return {"grid": grid, "image": (height, width), "first": np.arange(n) * (height * width)}


def locate(
    attrs: SampleAttrs,
    *,
    m: Array,
    grid: Array,
    image: tuple[int, int],
    first: Array,
    t: Array,
    nearest: Array,
    outside: Array,
    at: Array,
    weights: Array,
) -> None:
    """Fills `at` with the rows of the four pixels in (N H W, C), and `weights`.

    Leaves the distances from the first pixel in `t`, and which outputs are 0 in `outside[:, 0]`.
    """
    height, width = image
    last = np.array([[width - 1], [height - 1]], t.dtype)
    np.matmul(m[:, :2], grid, out=t)
    np.subtract(t, attrs.center, out=t)
    np.fmin(t, last, out=nearest)  # NaN is outside
    np.fmax(nearest, 0, out=nearest)
    np.not_equal(nearest, t, out=outside)
    np.logical_or(outside[:, 0], outside[:, 1], out=outside[:, 0])
    np.floor(nearest, out=nearest)
    np.minimum(nearest, np.fmax(last - 1, 0), out=nearest)  # so that all four are in the image
    np.subtract(t, nearest, out=t)
    np.copyto(at[..., 0], nearest[:, 1], casting="unsafe")
    np.multiply(at[..., 0], width, out=at[..., 0])
    np.copyto(at[..., 1], nearest[:, 0], casting="unsafe")
    np.add(at[..., 0], at[..., 1], out=at[..., 0])
    np.add(at[..., 0], first[:, None], out=at[..., 0])
    np.subtract(1, t, out=nearest)
    for k, (down, right) in enumerate(CORNERS):
        if k:
            step = down * width * (height > 1) + right * (width > 1)
            np.add(at[..., 0], step, out=at[..., k])
        parts = (t if right else nearest)[:, 0], (t if down else nearest)[:, 1]
        np.multiply(*parts, out=weights[..., k])
        np.copyto(weights[..., k], 0, where=outside[:, 0])


def rows(a: Array) -> Array:
    """Reshapes (N, …, C) to (N …, C)."""
    return a.reshape(-1, a.shape[-1], copy=False)


def forward(
    attrs: SampleAttrs, *, x: Array, m: Array, y: Array, pixels: Array, **where: Any
) -> None:
    locate(attrs, m=m, **where)
    np.take(rows(x), rows(where["at"]), axis=0, out=pixels, mode="clip")
    np.matmul(rows(where["weights"])[:, None], pixels, out=rows(y)[:, None])


def bind_forward(
    attrs: SampleAttrs, *, x: Array, m: Array, y: Array, **where: Any
) -> Callable[[], None]:
    at, weights = where["at"], where["weights"]
    sizes = 1, at.size // 4, x.shape[3], x.size // x.shape[3]
    ends = np.arange(0, at.size + 1, 4, dtype=np.int64)
    return in_order(
        [
            partial(locate, attrs, m=m, **where),
            bind("gather", x, y, ends, at, weights, *sizes),
        ]
    )


def weigh(attrs: SampleAttrs, *, dy: Array, m: Array, pixels: Array, **where: Any) -> None:
    """Fills `pixels` with dy times the weights of the four pixels."""
    locate(attrs, m=m, **where)
    np.multiply(rows(dy)[:, None], rows(where["weights"])[..., None], out=pixels)


def grad_x(attrs: SampleAttrs, *, dy: Array, m: Array, dx: Array, **where: Any) -> None:
    weigh(attrs, dy=dy, m=m, **where)
    put(dx, where["at"].ravel(), dx.shape[3], where["pixels"])


def bind_grad_x(
    attrs: SampleAttrs, *, dy: Array, m: Array, dx: Array, **where: Any
) -> Callable[[], None]:
    fill = partial(weigh, attrs, dy=dy, m=m, **where)
    return in_order([fill, scatter_add(where["pixels"], where["at"], dx)])


def grad_m(
    attrs: SampleAttrs, *, dy: Array, x: Array, m: Array, dm: Array, pixels: Array, **where: Any
) -> None:
    locate(attrs, m=m, **where)
    np.take(rows(x), rows(where["at"]), axis=0, out=pixels, mode="clip")
    sums, t, dt = where["weights"], where["t"], where["nearest"]
    np.matmul(pixels, rows(dy)[..., None], out=rows(sums)[..., None])
    # dy times the pixels a, b to the right of it, c below it, d below b. The derivatives by t are
    # b − a + t₁ (d − c − b + a) and c − a + t₀ (d − c − b + a).
    a, b, c, d = np.moveaxis(sums, -1, 0)
    for part in (b, c):
        np.subtract(d, part, out=d)
        np.subtract(part, a, out=part)
    np.add(d, a, out=d)
    for k, part in enumerate((b, c)):
        np.multiply(t[:, 1 - k], d, out=dt[:, k])
        np.add(dt[:, k], part, out=dt[:, k])
    np.copyto(dt, 0, where=where["outside"][:, :1])
    np.matmul(dt, where["grid"].T, out=dm[:, :2])
    dm[:, 2:] = 0


OP = OpDef(
    "CUSTOM:TransformTensorBilinear",
    inputs=("x", "m"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x", "m"),
        writes=("y",),
        workspace=workspace,
        prepare=geometry,
        compiled=Compiled(bind_forward, fits("x"), places, geometry),
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "m"),
            writes=("dx",),
            workspace=workspace,
            prepare=geometry,
            compiled=Compiled(bind_grad_x, fits("dx"), workspace, geometry),
        ),
        "m": Kernel(
            grad_m,
            reads=("dy", "x", "m"),
            writes=("dm",),
            workspace=workspace,
            prepare=geometry,
        ),
    },
    attrs=attrs,
)
