"""im2col: windows of images copied to columns for a matrix product, a tile of images at a time.

A tile's columns stay in the cache, so the workspace does not grow with the batch. Whole runs of
neighboring values are copied, and each product has a long dimension.
"""

from collections.abc import Iterator

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.geometry.window import Reading, clear_border, fill_inside, windows
from odt.kernels.rows.opdef import Array, TensorSpec

TILE_BYTES = 2**21  # bytes of columns; with smaller tiles, workers wait for each other's many calls


@dataclass(frozen=True, slots=True)
class PaddedImages:
    """A batch of images with a border of zeros.

    Attributes:
        images: number of images, N.
        h, w: zeros before and after each axis.
        height, width, channels: sizes without the border.
    """

    images: int
    h: tuple[int, int]
    w: tuple[int, int]
    height: int
    width: int
    channels: int

    @property
    def is_padded(self) -> bool:
        return any((*self.h, *self.w))

    def padded(self, images: int, dtype: np.dtype[np.generic]) -> TensorSpec:
        """Returns the spec of a number of images with their border."""
        height, width = self.height + sum(self.h), self.width + sum(self.w)
        return TensorSpec((images, height, width, self.channels), dtype)


@dataclass(frozen=True, slots=True)
class Tiling:
    """Size of a tile of columns: several whole images, or some rows of windows of one image.

    Attributes:
        images: number of images.
        rows: number of rows of windows of each image.
    """

    images: int
    rows: int


def tiling(source: PaddedImages, h: Reading, w: Reading, itemsize: int) -> Tiling:
    """Returns the size of a tile, at most TILE_BYTES unless one row of windows has more."""
    row = w.count * h.taps * w.taps * source.channels * itemsize
    image = max(row * h.count, 1)
    if image <= TILE_BYTES:
        return Tiling(max(min(TILE_BYTES // image, source.images), 1), h.count)
    return Tiling(1, max(TILE_BYTES // row, 1))


def column_size(source: PaddedImages, h: Reading, w: Reading, itemsize: int) -> int:
    """Returns the number of elements of the largest tile of columns."""
    tile = tiling(source, h, w, itemsize)
    return tile.images * tile.rows * w.count * h.taps * w.taps * source.channels


def tiles(
    a: Array,
    source: PaddedImages,
    h: Reading,
    w: Reading,
    padded: Array | None,
    columns: Array,
    border: float = 0,
) -> Iterator[tuple[slice, slice, Array]]:
    """Copies the windows of a batch to columns, tile by tile.

    Args:
        a: images (N, H, W, C).
        source, h, w: geometry of the images, and of the windows along each axis.
        padded: workspace for the padded images of a tile; None if there is no border.
        columns: workspace for the columns of a tile, which may have another dtype.
        border: value of the border.

    Yields:
        The tile's images, its rows of windows, and its columns (windows, taps · C).
    """
    tile = tiling(source, h, w, columns.dtype.itemsize)
    if padded is not None:
        clear_border(padded, source.h, source.w, border)
    depth = h.taps * w.taps * source.channels
    for n in range(0, source.images, tile.images):
        images = slice(n, min(n + tile.images, source.images))
        inside = a[images]
        if padded is not None:
            inside = fill_inside(padded, inside, source.h[0], source.w[0])
        for r in range(0, h.count, tile.rows):
            rows = slice(r, min(r + tile.rows, h.count))
            view = windows(inside, h, w, rows.start, rows.stop)
            count = view.shape[0] * view.shape[1] * view.shape[2]
            flat = columns[: count * depth].reshape(count, depth, copy=False)
            if w.dilation == 1:
                view = _runs(view)
            np.copyto(flat.reshape(view.shape, copy=False), view)
            yield images, rows, flat


def _runs(view: Array) -> Array:
    """Views windows with the taps of a row as one run of contiguous values."""
    n, rows, cols, h_taps, w_taps, channels = view.shape
    return np.lib.stride_tricks.as_strided(
        view,
        (n, rows, cols, h_taps, w_taps * channels),
        (*view.strides[:4], view.strides[5]),
    )


def fitting_images(source: PaddedImages, itemsize: int) -> int:
    """Returns the number of padded images that fit into a tile, at least one."""
    image = source.padded(1, np.dtype(np.uint8)).size * itemsize
    return max(min(TILE_BYTES // max(image, 1), source.images), 1)


def image_tiles(
    a: Array, source: PaddedImages, padded: Array | None, border: float = 0
) -> Iterator[tuple[slice, Array]]:
    """Copies a batch into its border, some images at a time; all images at once without a border.

    Yields:
        The slice of images, and these images with their border.
    """
    if padded is None:
        yield slice(0, source.images), a
        return
    clear_border(padded, source.h, source.w, border)
    for n in range(0, source.images, padded.shape[0]):
        images = slice(n, min(n + padded.shape[0], source.images))
        yield images, fill_inside(padded, a[images], source.h[0], source.w[0])
