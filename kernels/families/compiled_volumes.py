"""Compiled convolution of volumes: windows of three axes, read in place.

The functions compute what those of kernels/families/convolution_3d.py compute. The gradient of
filters is copied from the order of CONV_2D.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from odt.kernels.families.convolution_3d import axes
from odt.kernels.geometry.conv_geometry import VolumeAttrs
from odt.kernels.geometry.window import Axis, phases
from odt.kernels.native import convolution
from odt.kernels.native.binding import in_order
from odt.kernels.native.copies import copy
from odt.kernels.native.float32 import FLOAT, is_float32
from odt.kernels.native.library import limit
from odt.kernels.native.structs import WindowWalk
from odt.kernels.native.window_walk import phase_taps, taps, tiled, window_walk
from odt.kernels.rows.opdef import (
    Array,
    Attrs,
    Clamp,
    Compiled,
    ReluMask,
    Specs,
    TensorSpec,
    never_packed,
)

Axes = tuple[Axis, Axis, Axis]


class Windows(NamedTuple):
    """Windows along one axis.

    Attributes:
        taps: offsets of input and weights.
        start, stride: the first window, and the distance of windows.
        results: number of results.
        first, step: the first result, and the distance of results.
    """

    taps: Sequence[tuple[int, int]]
    start: int
    stride: int
    results: int
    first: int = 0
    step: int = 1


def _distances(w: Array) -> tuple[int, int, int]:
    """Returns the distances of taps in filters (KD, KH, KW, C, O)."""
    _, height, width, channels, units = w.shape
    tap = channels * units
    return height * width * tap, width * tap, tap


def _walk(read: Array, written: Array, along: Sequence[Windows], **weights: int) -> WindowWalk:
    """Returns the descriptor of windows along depth, height and width.

    Args:
        read: x, or dy.
        written: y, or dx.
        along: the windows of each axis.
        weights: strides of the weights.
    """
    d, h, v = along
    images, planes, height, width, depth = read.shape
    _, planes_out, rows, cols, units = written.shape
    row = cols * units
    plane = rows * row
    return window_walk(
        h.taps,
        v.taps,
        d.taps,
        images=images,
        planes=planes,
        height=height,
        width=width,
        depth=depth,
        units=units,
        image_stride=planes * height * width * depth,
        plane_stride=height * width * depth,
        row_stride=width * depth,
        col_stride=depth,
        planes_out=d.results,
        rows=h.results,
        cols=v.results,
        start_d=d.start,
        start_h=h.start,
        start_w=v.start,
        stride_d=d.stride,
        stride_h=h.stride,
        stride_w=v.stride,
        out_start=d.first * plane + h.first * row + v.first * units,
        out_image=planes_out * plane,
        out_plane=d.step * plane,
        out_row=h.step * row,
        out_col=v.step * units,
        **weights,
    )


def _forward_walk(x: Array, w: Array, y: Array, axes: Axes) -> WindowWalk:
    along = [
        Windows(taps(a, weight), -a.lo, a.stride, a.out)
        for a, weight in zip(axes, _distances(w), strict=True)
    ]
    return _walk(x, y, along, depth_stride=w.shape[4], unit_stride=1)


def _phases(a: Axis, weight: int) -> list[Windows]:
    """Returns the windows of dy for each stride phase of dx along an axis."""
    before, _, along = phases(a)
    return [
        Windows(
            phase_taps(p, weight), p.reading.start - before, 1, p.reading.count, p.first, a.stride
        )
        for p in along
    ]


def _as_images(spec: TensorSpec) -> TensorSpec:
    """Returns the spec of a volume as one image: its planes one below the other."""
    _, depth, height, width, channels = spec.shape
    return TensorSpec((1, depth * height, width, channels), FLOAT)


def _filters(w: TensorSpec, taps: int) -> TensorSpec:
    """Returns the spec of filters whose taps along the depth are further channels."""
    _, height, width, channels, units = w.shape
    return TensorSpec((units, height, width, taps * channels), FLOAT)


def _in_tiles(attrs: VolumeAttrs, filters: TensorSpec, w: TensorSpec, y: TensorSpec) -> bool:
    """Whether tiles of 2×2 results compute y, or dx: the channels of a plane must fill vectors."""
    lanes = limit("MAX_LANES")
    whole = w.shape[3] % lanes == w.shape[4] % lanes == 0
    return whole and convolution.in_tiles(attrs, filters, _as_images(y))


def correlate_scratch(attrs: VolumeAttrs, s: Specs) -> Specs:
    w = s["w"]
    filters = _filters(w, w.shape[0])
    if _in_tiles(attrs, filters, w, s["y"]):
        return convolution.tiles_workspace(filters.shape[3], filters.shape[0])
    return convolution.panel_workspace(w.size // w.shape[4], w.shape[4])


def packed(attrs: VolumeAttrs, s: Specs) -> TensorSpec | None:
    w = s["w"]
    tiles = _in_tiles(attrs, _filters(w, w.shape[0]), w, s["y"])
    return None if tiles else convolution.packed_weights(w.size // w.shape[4], w.shape[4])


def spread_scratch(attrs: VolumeAttrs, s: Specs) -> Specs:
    w, dx = s["w"], s["dx"]
    taps, _, _, channels, units = w.shape
    along, *_ = axes(attrs, dx, w)
    most = max(len(phase.taps) for phase in phases(along)[2])
    if _in_tiles(attrs, _filters(w, most), w, dx):
        return convolution.tiles_workspace(most * units, channels)
    return convolution.panel_workspace(most * w.size // taps // channels, channels)


def filter_scratch(attrs: VolumeAttrs, s: Specs) -> Specs:
    w = s["w"]
    filters = _filters(w, w.shape[0])
    if _in_tiles(attrs, filters, w, s["dy"]):
        workspace = convolution.filter_workspace(attrs, {"w": filters, "dy": _as_images(s["dy"])})
    else:
        *_, channels, units = w.shape
        workspace = convolution.sums_workspace(units, w.size // channels // units, channels)
    return {"filters": filters, **workspace}


def correlate(
    attrs: VolumeAttrs,
    *,
    x: Array,
    w: Array,
    y: Array,
    axes: Axes,
    panel: Array | None = None,
    **kwargs: Any,
) -> Callable[[], None]:
    """Returns a call that computes y = windows of x times w, plus b."""
    return convolution.correlate(x, w, y, panel, _forward_walk(x, w, y, axes), **kwargs)


def filter_sums(
    attrs: VolumeAttrs,
    *,
    dy: Array,
    x: Array,
    dw: Array,
    filters: Array,
    axes: Axes,
    scratch: Array | None = None,
    tiles: Array | None = None,
    db: Array | None = None,
) -> Callable[[], None]:
    """Returns a call that computes dw = dyᵀ times windows of x."""
    walk = _forward_walk(x, dw, dy, axes)
    taps, height, width, channels, units = dw.shape
    sums = filters.reshape(units, taps, height, width, channels).transpose(1, 2, 3, 4, 0)
    if tiles is not None:
        scratch, walk = tiles, tiled(walk)
        sums = filters.reshape(units, height, width, taps, channels).transpose(3, 1, 2, 4, 0)
    run = convolution.filter_sums(dy, x, filters, db, scratch, walk, 0, None)
    return in_order([run, copy(sums, dw)])


def spread(
    attrs: VolumeAttrs,
    *,
    dy: Array,
    w: Array,
    dx: Array,
    axes: Axes,
    panel: Array | None = None,
    tiles: Array | None = None,
    b: Array | None = None,
    clamp: Clamp | None = None,
    relu_mask: ReluMask | None = None,
) -> Callable[[], None]:
    """Returns a call that computes dx[i] = Σ dy[o] w[k] + b.

    The sum is over the outputs o and taps k that read input i.
    """
    runs = []
    along = (_phases(a, weight) for a, weight in zip(axes, _distances(w), strict=True))
    for windows in product(*along):
        walk = _walk(dy, dx, windows, depth_stride=1, unit_stride=w.shape[4])
        in_tiles = tiles if walk.taps_d else None
        runs.append(convolution.correlate(dy, w, dx, panel, walk, b, clamp, relu_mask, in_tiles))
    return in_order(runs)


def compiled_form(
    run: Callable[..., Callable[[], None]],
    workspace: Callable[[Attrs, Specs], Specs],
    *,
    takes: str = "",
    packed: Callable[[Attrs, Specs], TensorSpec | None] = never_packed,
    **roles: str,
) -> Compiled:
    """Makes the compiled form of a kernel.

    Args:
        run, workspace: one of the functions above, and its workspace.
        takes: the kind of epilogue that it can apply.
        packed: as in Compiled.
        roles: name in the row → argument of the function, where they differ.
    """

    def renamed(arguments: Mapping[str, Any]) -> dict[str, Any]:
        others = {name: value for name, value in arguments.items() if name not in roles}
        return others | {new: arguments[name] for name, new in roles.items() if name in arguments}

    def call_with(attrs: Attrs, **arrays: Any) -> Callable[[], None]:
        return run(attrs, **renamed(arrays))

    def scratch(attrs: Attrs, s: Specs) -> Specs:
        return workspace(attrs, renamed(s))

    def prepare(attrs: Attrs, s: Specs) -> Mapping[str, Any]:
        specs = renamed(s)
        return {"axes": axes(attrs, specs["dx" if run is spread else "x"], specs["w"])}

    return Compiled(
        call_with,
        lambda attrs, s: is_float32(s),
        scratch,
        prepare,
        frozenset({takes} if takes else ()),
        packed=packed,
    )
