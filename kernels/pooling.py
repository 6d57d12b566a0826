"""What pooling operators share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from odt.errors import ShapeError
from odt.kernels.columns import Source, fitting_images
from odt.kernels.opdef import Array, Options, Specs, TensorSpec
from odt.kernels.window import SAME, Axis, axis, windows

NO_TAP = 255  # where no input of a window is its maximum


@dataclass(frozen=True, slots=True)
class PoolAttrs:
    """Padding as in the schema; stride and window as (height, width)."""

    padding: int
    stride: tuple[int, int]
    window: tuple[int, int]

    def axes(self, x: TensorSpec) -> tuple[Axis, Axis]:
        h, v = (
            axis(x.shape[i], self.window[i - 1], self.stride[i - 1], 1, self.padding)
            for i in (1, 2)
        )
        return h, v


def pool_attrs(options: Options, statics: Mapping[str, Array]) -> PoolAttrs:
    return PoolAttrs(
        options.get("padding", SAME),
        (options.get("stride_h", 1), options.get("stride_w", 1)),
        (options.get("filter_height", 1), options.get("filter_width", 1)),
    )


def infer(attrs: PoolAttrs, s: Specs) -> Specs:
    x = s["x"]
    if len(x.shape) != 4 or x.dtype.kind != "f":
        raise ShapeError(f"x must be (N, H, W, C) of a float type, but got {x}")
    h, v = attrs.axes(x)
    return {"y": TensorSpec((x.shape[0], h.out, v.out, x.shape[3]), x.dtype)}


def source_of(attrs: PoolAttrs, x: TensorSpec) -> Source:
    h, v = attrs.axes(x)
    return Source(x.shape[0], (h.lo, h.hi), (v.lo, v.hi), *x.shape[1:])


def geometry(attrs: PoolAttrs, s: Specs) -> Mapping[str, Any]:
    x = s["x"]
    return {"axes": attrs.axes(x), "source": source_of(attrs, x)}


def shares(attrs: PoolAttrs, x: TensorSpec) -> Array:
    """(OH, OW, 1): one over the number of inputs in each window, padding not counted."""

    def counts(a: Axis) -> Array:
        first = np.arange(a.out) * a.stride - a.lo
        return np.minimum(first + a.kernel, a.size) - np.maximum(first, 0)

    h, v = attrs.axes(x)
    return (1 / np.multiply.outer(counts(h), counts(v)))[:, :, np.newaxis].astype(x.dtype)


def share_geometry(attrs: PoolAttrs, s: Specs) -> Mapping[str, Any]:
    return {**geometry(attrs, s), "shares": shares(attrs, s["x"])}


def room(attrs: PoolAttrs, s: Specs) -> Specs:
    """A tile's images with their border, where there is one."""
    source, dtype = source_of(attrs, s["x"]), s["x"].dtype
    if not source.is_padded:
        return {}
    return {"padded": source.padded(fitting_images(source, dtype.itemsize), dtype)}


def back_room(attrs: PoolAttrs, s: Specs) -> Specs:
    """For a tile of images: what each input of a window gets, and dx with its border."""
    source, dtype = source_of(attrs, s["x"]), s["x"].dtype
    images = fitting_images(source, dtype.itemsize)
    found = {"part": TensorSpec((images, *s["y"].shape[1:]), dtype)}
    if source.is_padded:
        found["dpadded"] = source.padded(images, dtype)
    return found


def spread(
    gains: Array, dx: Array, axes: tuple[Axis, Axis], source: Source, dpadded: Array | None
) -> None:
    """Fills dx of a tile of images: every input of a window gets the window's gain.

    Args:
        gains: (N, OH, OW, C).
        dpadded: room for dx with its border; None if there is none.
    """
    h, v = (a.reading for a in axes)
    into = dx if dpadded is None else dpadded[: len(dx)]
    into.fill(0)
    view = windows(into, h, v)
    for i in range(h.taps):
        for j in range(v.taps):
            tap = view[:, :, :, i, j]
            np.add(tap, gains, out=tap)
    if dpadded is not None:
        (top, _), (left, _) = source.h, source.w
        np.copyto(dx, into[:, top : top + source.height, left : left + source.width])
