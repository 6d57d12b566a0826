"""Compiled convolution of volumes: the compiled convolutions of images, one for each tap.

The functions compute what those of kernels/families/convolution_3d.py compute. Filters are copied
to the order of CONV_2D first, (KD, O, KH, KW, C). Images at a distance along the depth are
convolved one by one, since a call reads images side by side.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from odt.kernels.families.convolution_3d import Span, VolumeAttrs
from odt.kernels.families.copies import zeros
from odt.kernels.native import convolution
from odt.kernels.native.binding import Run, bind, in_order
from odt.kernels.native.copies import copy
from odt.kernels.native.elementwise import call
from odt.kernels.native.float32 import FLOAT, is_float32
from odt.kernels.native.structs import WindowWalk
from odt.kernels.native.window_walk import forward_walk, phase_walks
from odt.kernels.opdef import Array, Attrs, Compiled, Specs, TensorSpec

Taps = tuple[Span, ...]
Walks = Callable[[Array, Array, Array, Span], Iterable[WindowWalk]]


def _filters(w: TensorSpec) -> TensorSpec:
    depth, height, width, channels, units = w.shape
    return TensorSpec((depth, units, height, width, channels), FLOAT)


def _images(a: TensorSpec, y: TensorSpec) -> TensorSpec:
    """As many images of `a` as y has along the depth."""
    return TensorSpec((y.shape[1], *a.shape[2:]), FLOAT)


def _of_image(filters: TensorSpec) -> TensorSpec:
    return TensorSpec(filters.shape[1:], FLOAT)


def correlate_scratch(attrs: VolumeAttrs, s: Specs) -> Specs:
    filters = _filters(s["w"])
    _, units, *taps = filters.shape
    panel = convolution.panel_workspace(prod(taps), units)
    return {"filters": filters, "part": _images(s["y"], s["y"]), **panel}


def spread_scratch(attrs: VolumeAttrs, s: Specs) -> Specs:
    filters, part = _filters(s["w"]), _images(s["dx"], s["dy"])
    panel = convolution.back_workspace(attrs, {"w": _of_image(filters), "dx": part})
    return {"filters": filters, "part": part, **panel}


def filter_scratch(attrs: VolumeAttrs, s: Specs) -> Specs:
    filters = _of_image(_filters(s["w"]))
    units, height, width, depth = filters.shape
    sums = convolution.sums_workspace(units, height * width, depth)
    return {"filters": filters, "part": filters, **sums}


def _in_order_of_images(w: Array) -> Array:
    return w.transpose(0, 4, 1, 2, 3)


def _sides(span: Span) -> Iterator[tuple[slice, slice]]:
    """Yields outputs and images of x that lie side by side."""
    if span.ins.step == 1:
        yield span.outs, span.ins
        return
    for k in range(span.count):
        out, at = span.outs.start + k, span.ins.start + k * span.ins.step
        yield slice(out, out + 1), slice(at, at + 1)


def _add(into: Array, more: Array) -> Run:
    return call("add", into, (into, more), -np.inf, np.inf)


def _sum_of_taps(
    read: Array,
    into: Array,
    w: Array,
    b: Array | None,
    *,
    filters: Array,
    part: Array,
    taps: Taps,
    walks: Walks,
    panel: Array | None = None,
    tiles: Array | None = None,
    back: bool = False,
) -> Iterator[Run]:
    """Yields the calls that compute `into`: for each tap a convolution of images of `read`, plus b.

    Args:
        read: x, or dy.
        into: y, or dx.
        w, b: filters, and bias if there is one.
        filters, part: workspace.
        taps: taps along the depth.
        walks: returns the walks of a convolution of images by filters.
        panel, tiles: workspace, if the filters are packed, or the sums computed in tiles.
        back: whether `into` is dx.
    """
    yield copy(_in_order_of_images(w), filters)
    yield copy(*zeros(into)) if b is None else copy(np.broadcast_to(b, into.shape), into)
    for n in range(len(read)):
        for span in taps:
            for outs, ins in _sides(span):
                source, target = (outs, ins) if back else (ins, outs)
                images, sums, k = read[n, source], into[n, target], filters[span.tap]
                made = part[: len(sums)]
                for walk in walks(images, k, made, span):
                    yield convolution.correlate(images, k, made, panel, walk, tiles=tiles)
                yield _add(sums, made)


def correlate(
    *, x: Array, w: Array, y: Array, b: Array | None = None, **more: Any
) -> Callable[[], None]:
    """Computes y = windows of x times w, plus b."""

    def walks(images: Array, k: Array, made: Array, span: Span) -> list[WindowWalk]:
        return [forward_walk(images, k, made, span.walk["axes"])]

    return in_order(_sum_of_taps(x, y, w, b, walks=walks, **more))


def spread(
    *,
    dy: Array,
    w: Array,
    dx: Array,
    b: Array | None = None,
    **more: Any,
) -> Callable[[], None]:
    """Computes dx[i] = Σ dy[o] w[k] over outputs o and taps k that read input i, plus b."""

    def walks(images: Array, k: Array, made: Array, span: Span) -> Iterable[WindowWalk]:
        return phase_walks(images, k, made, **span.walk)

    return in_order(_sum_of_taps(dy, dx, w, b, walks=walks, back=True, **more))


def filter_sums(
    *, dy: Array, x: Array, dw: Array, filters: Array, part: Array, scratch: Array, taps: Taps
) -> Callable[[], None]:
    """Computes dw = dyᵀ times windows of x."""

    def of_tap(span: Span) -> Iterator[Run]:
        first = True
        for n in range(len(x)):
            for outs, ins in _sides(span):
                out, read, made = dy[n, outs], x[n, ins], filters if first else part
                walk = forward_walk(read, made, out, span.walk["axes"])
                yield bind("filter_sums", out, read, made, None, scratch, walk)
                if not first:
                    yield _add(filters, part)
                first = False
        yield copy(filters.transpose(1, 2, 3, 0), dw[span.tap])

    unread = sorted({*range(len(dw))} - {span.tap for span in taps})
    return in_order([*(copy(*zeros(dw[k])) for k in unread), *chain(*map(of_tap, taps))])


def of(
    run: Callable[..., Callable[[], None]],
    workspace: Callable[[Attrs, Specs], Specs],
    prepare: Callable[[Attrs, Specs], Mapping[str, Any]],
    **roles: str,
) -> Compiled:
    """Makes the compiled form of a kernel.

    Args:
        run, workspace: one of the functions above, and its workspace.
        prepare: returns the taps.
        roles: name in the row → argument of the function, where they differ.
    """

    def renamed(given: Mapping[str, Any]) -> dict[str, Any]:
        same = {n: a for n, a in given.items() if n not in roles}
        return same | {new: given[n] for n, new in roles.items() if n in given}

    def call_with(attrs: Attrs, **arrays: Any) -> Callable[[], None]:
        return run(**renamed(arrays))

    def scratch(attrs: Attrs, s: Specs) -> Specs:
        return workspace(attrs, renamed(s))

    return Compiled(call_with, lambda attrs, s: is_float32(s), scratch, prepare)
