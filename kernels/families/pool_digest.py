"""Digests of maximum pools for backward: one byte per window."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from odt.kernels.geometry.im2col import PaddedImages, fitting_images, image_tiles
from odt.kernels.geometry.pool_geometry import NO_TAP, PoolAttrs, geometry, source_of
from odt.kernels.geometry.window import Axis, windows
from odt.kernels.native import pool
from odt.kernels.rows.opdef import Array, Digest, Kernel, Specs, TensorSpec

BOOL, BYTE = np.dtype(bool), np.dtype(np.uint8)


def _images(attrs: PoolAttrs, s: Specs) -> tuple[PaddedImages, int]:
    source = source_of(attrs, s["x"])
    return source, fitting_images(source, s["x"].dtype.itemsize)


def _make_workspace(attrs: PoolAttrs, s: Specs) -> Specs:
    source, images = _images(attrs, s)
    specs = {"is_max": TensorSpec((images, *s["y"].shape[1:]), BOOL)}
    if source.is_padded:
        specs["padded"] = source.padded(images, s["x"].dtype)
    return specs


def _tiles(
    x: Array, source: PaddedImages, at_once: int, padded: Array | None
) -> Iterator[tuple[slice, Array]]:
    """Yields tiles of images with their border."""
    if padded is not None:
        yield from image_tiles(x, source, padded, -np.inf)
        return
    for n in range(0, source.images, at_once):
        images = slice(n, min(n + at_once, source.images))
        yield images, x[images]


def _make_argmax(
    attrs: PoolAttrs,
    *,
    x: Array,
    y: Array,
    digest: Array,
    is_max: Array,
    axes: tuple[Axis, Axis],
    source: PaddedImages,
    at_once: int,
    padded: Array | None = None,
) -> None:
    h, v = (a.reading for a in axes)
    for images, inside in _tiles(x, source, at_once, padded):
        view, taps = windows(inside, h, v), digest[images]
        mask = is_max[: len(taps)]
        taps.fill(NO_TAP)
        # In reverse, so that the first of equal values is written last.
        for tap in reversed(range(h.taps * v.taps)):
            np.equal(view[:, :, :, tap // v.taps, tap % v.taps], y[images], out=mask)
            np.copyto(taps, tap, where=mask, casting="unsafe")


def _back_workspace(attrs: PoolAttrs, s: Specs) -> Specs:
    source, images = _images(attrs, s)
    part = (images, *s["y"].shape[1:])
    specs = {"is_max": TensorSpec(part, BOOL), "gradient": TensorSpec(part, s["x"].dtype)}
    if source.is_padded:
        specs["dpadded"] = source.padded(images, s["x"].dtype)
    return specs


def _geometry(attrs: PoolAttrs, s: Specs) -> Mapping[str, Any]:
    return {**geometry(attrs, s), "at_once": _images(attrs, s)[1]}


def _argmax_back(
    attrs: PoolAttrs,
    *,
    dy: Array,
    digest: Array,
    dx: Array,
    is_max: Array,
    gradient: Array,
    axes: tuple[Axis, Axis],
    source: PaddedImages,
    at_once: int,
    dpadded: Array | None = None,
) -> None:
    h, v = (a.reading for a in axes)
    (top, _), (left, _) = source.h, source.w
    for n in range(0, source.images, at_once):
        images = slice(n, min(n + at_once, source.images))
        count = images.stop - n
        into = dx[images] if dpadded is None else dpadded[:count]
        into.fill(0)
        view, mask, part = windows(into, h, v), is_max[:count], gradient[:count]
        for tap in range(h.taps * v.taps):
            np.equal(digest[images], tap, out=mask)
            np.multiply(dy[images], mask, out=part)
            place = view[:, :, :, tap // v.taps, tap % v.taps]
            np.add(place, part, out=place)
        if dpadded is not None:
            inner = into[:, top : top + source.height, left : left + source.width]
            np.copyto(dx[images], inner)


def _do_not_overlap(attrs: PoolAttrs, s: Specs) -> bool:
    """Whether windows are disjoint: no gradient is then a sum, whose order would change bits."""
    (h, v), (step_h, step_v) = attrs.window, attrs.stride
    return h <= step_h and v <= step_v and h * v < NO_TAP


# Digest of MAX_POOL_2D: one byte per window, the position of the maximum.
POOL_ARGMAX: Digest = Digest(
    make=Kernel(
        _make_argmax,
        reads=("x", "y"),
        writes=("digest",),
        workspace=_make_workspace,
        prepare=_geometry,
        compiled=pool.ARGMAX,
    ),
    gradient=Kernel(
        _argmax_back,
        reads=("dy", "digest"),
        writes=("dx",),
        workspace=_back_workspace,
        prepare=_geometry,
        compiled=pool.ARGMAX_BACK,
    ),
    spec=lambda attrs, s: TensorSpec(s["y"].shape, BYTE),
    fits=_do_not_overlap,
)
