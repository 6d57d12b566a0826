"""Image resizing by products with one matrix for each axis.

y = rows · x · colsᵀ for each image and channel, where a row of a matrix holds the weights of the
inputs for one output. The gradient uses the transposed matrices: long products instead of a
scatter. Compiled kernels use the elements of the matrices that are not 0; in NumPy an infinite
input makes its whole row and column NaN.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.geometry.im2col import TILE_BYTES
from odt.kernels.native.binding import in_order
from odt.kernels.native.gather import entries, fits, multiply
from odt.kernels.rows.opdef import Array, Compiled, Kernel, OpDef, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef


@dataclass(frozen=True, slots=True)
class ResizeAttrs:
    """The output's (height, width), and the alignment of the two pixel grids.

    Attributes:
        align_corners: the centers of the corner pixels coincide.
        half_pixel_centers: the corners of the images coincide. If both are false, the centers of
            the first pixels coincide.
    """

    size: tuple[int, ...]
    align_corners: bool
    half_pixel_centers: bool


def attrs(options: Options, statics: Mapping[str, Array]) -> ResizeAttrs:
    return ResizeAttrs(
        tuple(int(n) for n in np.ravel(statics["size"])),
        bool(options.get("align_corners", False)),
        bool(options.get("half_pixel_centers", False)),
    )


def infer(attrs: ResizeAttrs, s: Specs) -> Specs:
    x = s["x"]
    if len(x.shape) != 4 or x.dtype.kind != "f" or 0 in x.shape[1:]:
        raise ShapeError(
            f"x must be (N, H, W, C) of a float type, H, W and C 1 or more, but got {x}"
        )
    if len(attrs.size) != 2 or min(attrs.size) < 1:
        raise ShapeError(f"size must be (height, width) of 1 or more, but got {attrs.size}")
    return {"y": TensorSpec((x.shape[0], *attrs.size, x.shape[3]), x.dtype)}


def step(attrs: ResizeAttrs, size: int, out: int) -> float:
    """Returns the distance between neighboring outputs, in input pixels."""
    if attrs.align_corners and out > 1:
        return (size - 1) / (out - 1)
    return size / out


Weigh = Callable[[ResizeAttrs, int, int], Array]


def resize(
    name: str,
    weigh: Weigh,
    infer: Callable[[ResizeAttrs, Specs], Specs] = infer,
    *,
    quantized: QuantizedDef | None = None,
) -> OpDef:
    """Makes the row of a resizing operator.

    Args:
        name: name of the operator.
        weigh: (attrs, size, out) → matrix (out, size) of the weights of the inputs.
        infer: infers the shape of y.
    """

    def matrices(attrs: ResizeAttrs, s: Specs) -> Mapping[str, Any]:
        x = s["x"]
        pairs = zip(x.shape[1:3], attrs.size, strict=True)
        rows, cols = (weigh(attrs, size, out).astype(x.dtype) for size, out in pairs)
        return {"rows": rows, "cols": cols}

    def sparse(attrs: ResizeAttrs, s: Specs) -> Mapping[str, Any]:
        return {n: entries(matrix) for n, matrix in matrices(attrs, s).items()}

    def sparse_back(attrs: ResizeAttrs, s: Specs) -> Mapping[str, Any]:
        return {n: entries(matrix.T) for n, matrix in matrices(attrs, s).items()}

    return OpDef(
        name,
        inputs=("x", "size"),
        infer=infer,
        forward=Kernel(
            forward,
            reads=("x",),
            writes=("y",),
            workspace=workspace,
            prepare=matrices,
            compiled=Compiled(call_forward, fits("x"), workspace, sparse),
        ),
        grads={
            "x": Kernel(
                grad_x,
                reads=("dy",),
                writes=("dx",),
                workspace=workspace,
                prepare=matrices,
                compiled=Compiled(call_grad_x, fits("x"), workspace, sparse_back),
            )
        },
        static=("size",),
        attrs=attrs,
        quantized=quantized,
    )


def workspace(attrs: ResizeAttrs, s: Specs) -> Specs:
    """Returns the workspace for a tile of images with the height of x and the width of y."""
    n, height, _, channels = s["x"].shape
    dtype = s["x"].dtype
    image = height * attrs.size[1] * channels
    images = max(min(TILE_BYTES // max(image * dtype.itemsize, 1), n), 1)
    return {"resized_width": TensorSpec((images, height, attrs.size[1], channels), dtype)}


def image_tiles(images: int, resized_width: Array) -> Iterator[tuple[slice, Array]]:
    for n in range(0, images, len(resized_width)):
        tile = slice(n, min(n + len(resized_width), images))
        yield tile, resized_width[: tile.stop - n]


def as_rows(a: Array) -> Array:
    """Reshapes (N, H, W, C) to (N, H, W·C)."""
    return a.reshape(a.shape[0], a.shape[1], -1, copy=False)


def as_cols(a: Array) -> Array:
    """Reshapes (N, H, W, C) to (N·H, W, C)."""
    return a.reshape(-1, *a.shape[2:], copy=False)


def forward(
    attrs: ResizeAttrs, *, x: Array, y: Array, rows: Array, cols: Array, resized_width: Array
) -> None:
    for images, part in image_tiles(len(x), resized_width):
        np.matmul(cols, as_cols(x[images]), out=as_cols(part))
        np.matmul(rows, as_rows(part), out=as_rows(y[images]))


def grad_x(
    attrs: ResizeAttrs, *, dy: Array, dx: Array, rows: Array, cols: Array, resized_width: Array
) -> None:
    for images, part in image_tiles(len(dy), resized_width):
        np.matmul(rows.T, as_rows(dy[images]), out=as_rows(part))
        np.matmul(cols.T, as_cols(part), out=as_cols(dx[images]))


def call_forward(
    attrs: ResizeAttrs, *, x: Array, y: Array, rows: Any, cols: Any, resized_width: Array
) -> Callable[[], None]:
    calls = []
    for images, part in image_tiles(len(x), resized_width):
        calls += [
            multiply(cols, as_cols(x[images]), as_cols(part)),
            multiply(rows, as_rows(part), as_rows(y[images])),
        ]
    return in_order(calls)


def call_grad_x(
    attrs: ResizeAttrs, *, dy: Array, dx: Array, rows: Any, cols: Any, resized_width: Array
) -> Callable[[], None]:
    calls = []
    for images, part in image_tiles(len(dy), resized_width):
        calls += [
            multiply(rows, as_rows(dy[images]), as_rows(part)),
            multiply(cols, as_cols(part), as_cols(dx[images])),
        ]
    return in_order(calls)
