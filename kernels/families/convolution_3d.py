"""Convolution of volumes, as convolutions of images: one for each tap along the depth.

x (N, D, H, W, C)    w (KD, KH, KW, C, O)    y (N, OD, OH, OW, O)

A tap multiplies the images of a volume at distance `stride`, for which its outputs exist, by the
filters w[k]. CONV_3D and CONV_3D_TRANSPOSE use these functions in different roles, so they are
named after what they compute.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families import convolution
from odt.kernels.geometry.conv_geometry import (
    VolumeAttrs,
    back_geometry,
    check_phases,
    conv_attrs,
    geometry,
)
from odt.kernels.geometry.window import Axis
from odt.kernels.rows.opdef import Array, Options, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class Span:
    """The images that a tap along the depth multiplies.

    Attributes:
        tap: number of the tap.
        outs: their outputs.
        ins: the images of x.
        walk: arguments of the convolution of these images.
    """

    tap: int
    outs: slice
    ins: slice
    walk: Mapping[str, Any]

    @property
    def count(self) -> int:
        """Number of images."""
        return int(self.outs.stop - self.outs.start)


def volume_attrs(options: Options, statics: Mapping[str, Array]) -> VolumeAttrs:
    images = conv_attrs(options, statics)
    return VolumeAttrs(
        images.padding,
        images.stride,
        images.dilation,
        options.get("stride_d", 1),
        options.get("dilation_d_factor", 1),
    )


def check(s: Specs, *, channels: int, units: int) -> None:
    """Checks x, w and b.

    Args:
        s: their specs.
        channels, units: axes of w that are the channels of x, and of y.

    Raises:
        ShapeError: if they do not match.
    """
    x, w = s["x"], s["w"]
    fits = len(x.shape) == len(w.shape) == 5 and x.dtype == w.dtype and x.dtype.kind == "f"
    if not fits or x.shape[4] != w.shape[channels] or not w.size:
        raise ShapeError(
            "x must be (N, D, H, W, C), and w must have 5 axes with one C, not empty, "
            f"but got x {x}, w {w}"
        )
    if "b" in s and s["b"] != TensorSpec((w.shape[units],), w.dtype):
        raise ShapeError(f"b must be {(w.shape[units],)} {w.dtype}, but got {s['b']}")


def axes(attrs: VolumeAttrs, x: TensorSpec, w: TensorSpec) -> tuple[Axis, Axis, Axis]:
    """Returns the geometry of depth, height and width; raises ShapeError as `ConvAttrs.axes`."""
    h, v = attrs.axes(_images(x, x.shape[0]), _filters(w))
    d = attrs.depth(x, w)
    check_phases(d, h, v)
    return d, h, v


def lengths(attrs: VolumeAttrs, x: TensorSpec, w: TensorSpec) -> tuple[int, ...]:
    """Returns depth, height and width of y."""
    return tuple(a.out for a in axes(attrs, x, w))


def spans(
    attrs: VolumeAttrs, x: TensorSpec, w: TensorSpec, y: TensorSpec, *, back: bool = False
) -> tuple[Span, ...]:
    """Returns the images for each tap; `back` for the walk from y to x."""
    d = attrs.depth(x, w)
    taps: list[Span] = []
    for k in range(d.kernel):
        shift = k * d.dilation - d.lo
        first = max(-(shift // d.stride), 0)
        stop = min((d.size - 1 - shift) // d.stride + 1, d.out)
        if first < stop:
            start = first * d.stride + shift
            ins = slice(start, start + (stop - first - 1) * d.stride + 1, d.stride)
            walk = _walk(attrs, x, w, y, stop - first, back=back)
            taps.append(Span(k, slice(first, stop), ins, walk))
    return tuple(taps)


def _walk(
    attrs: VolumeAttrs, x: TensorSpec, w: TensorSpec, y: TensorSpec, count: int, *, back: bool
) -> Mapping[str, Any]:
    images, filters = _images(x, count), _filters(w)
    if back:
        return back_geometry(attrs, {"dx": images, "w": filters, "dy": _images(y, count)})
    return geometry(attrs, {"x": images, "w": filters})


def _images(a: TensorSpec, count: int) -> TensorSpec:
    return TensorSpec((count, *a.shape[2:]), a.dtype)


def _filters(w: TensorSpec) -> TensorSpec:
    """The filters of a tap, in the order of CONV_2D."""
    _, height, width, channels, units = w.shape
    return TensorSpec((units, height, width, channels), w.dtype)


def correlate_scratch(
    attrs: VolumeAttrs, x: TensorSpec, w: TensorSpec, y: TensorSpec
) -> dict[str, TensorSpec]:
    """Returns the workspace of `correlate`: that of all images at once, and a tap's results."""
    axes, source = _walk(attrs, x, w, y, y.shape[1], back=False).values()
    scratch = convolution.window_scratch(axes, source, x.dtype)
    return {**scratch, "part": _images(y, y.shape[1])}


def correlate(
    x: Array,
    w: Array,
    y: Array,
    b: Array | None,
    part: Array,
    taps: tuple[Span, ...],
    **kwargs: Any,
) -> None:
    """Computes y = windows of x times w, plus b."""
    y[...] = 0 if b is None else b
    for n in range(len(x)):
        for span in taps:
            products, into = part[: span.count], y[n, span.outs]
            flat = w[span.tap].reshape(-1, w.shape[4], copy=False)
            convolution.correlate(x[n, span.ins], flat, products, None, **span.walk, **kwargs)
            np.add(into, products, out=into)


def filter_scratch(
    attrs: VolumeAttrs, x: TensorSpec, w: TensorSpec, y: TensorSpec
) -> dict[str, TensorSpec]:
    scratch = correlate_scratch(attrs, x, w, y)
    return {**scratch, "part": _filters(w), "filters": _filters(w)}


def filter_sums(
    dy: Array, x: Array, dw: Array, filters: Array, taps: tuple[Span, ...], **kwargs: Any
) -> None:
    """Computes dw = dyᵀ times windows of x."""
    dw.fill(0)
    for n in range(len(x)):
        for span in taps:
            out, images = dy[n, span.outs], x[n, span.ins]
            convolution.filter_sums(out, images, filters, **span.walk, **kwargs)
            np.add(dw[span.tap], filters.transpose(1, 2, 3, 0), out=dw[span.tap])


def spread_scratch(
    attrs: VolumeAttrs, x: TensorSpec, w: TensorSpec, y: TensorSpec
) -> dict[str, TensorSpec]:
    """Returns the workspace of `spread`: that of all images at once, and a tap's results."""
    _, source, pairs = _walk(attrs, x, w, y, y.shape[1], back=True).values()
    scratch = convolution.phase_scratch(source, pairs, w.shape[4], w.shape[3], x.dtype)
    return {**scratch, "part": _images(x, y.shape[1])}


def spread(
    dy: Array, w: Array, dx: Array, part: Array, taps: tuple[Span, ...], **kwargs: Any
) -> None:
    """Computes dx[i] = Σ dy[o] w[k] over outputs o and taps k that read input i."""
    dx.fill(0)
    for n in range(len(dx)):
        for span in taps:
            products, into = part[: span.count], dx[n, span.ins]
            filters = w[span.tap].transpose(0, 1, 3, 2)
            convolution.sum_phases(dy[n, span.outs], filters, products, **span.walk, **kwargs)
            np.add(into, products, out=into)
