"""Compiled convolution of volumes: the compiled convolutions of images, with more channels.

The functions compute what those of kernels/families/convolution_3d.py compute. The images that the
taps along the depth read for a result are copied side by side, as the channels of one image:
(H, W, taps, C). Filters and their gradients are copied to and from the order of CONV_2D.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import gcd
from typing import Any

import numpy as np

from odt.kernels.families.convolution_3d import Span
from odt.kernels.families.copies import zeros
from odt.kernels.geometry.conv_geometry import VolumeAttrs
from odt.kernels.native import convolution
from odt.kernels.native.binding import Run, in_order
from odt.kernels.native.copies import copy
from odt.kernels.native.elementwise import call
from odt.kernels.native.float32 import FLOAT, is_float32
from odt.kernels.rows.opdef import Array, Attrs, Compiled, Specs, TensorSpec

Taps = tuple[Span, ...]
MAX_VALUES = 2**18  # of the images that are copied for one call, unless one image has more


def _stack(a: TensorSpec, taps: int, results: int) -> TensorSpec:
    """Returns the spec of images with the channels of all taps, for results along the depth.

    It has all results, or as many as fit into MAX_VALUES, but at least one.
    """
    _, _, height, width, channels = a.shape
    most = max(MAX_VALUES // (height * width * taps * channels), 1)
    return TensorSpec((min(results, most), height, width, taps, channels), FLOAT)


def _as_one(a: TensorSpec, stack: TensorSpec) -> TensorSpec:
    """Returns the spec of a call's images one below the other: weights are packed once for all."""
    return TensorSpec((1, stack.shape[0] * a.shape[2], *a.shape[3:]), FLOAT)


def _filters(w: TensorSpec) -> TensorSpec:
    taps, height, width, channels, units = w.shape
    return TensorSpec((units, height, width, taps * channels), FLOAT)


def correlate_scratch(attrs: VolumeAttrs, s: Specs) -> Specs:
    stack, filters = _stack(s["x"], s["w"].shape[0], s["y"].shape[1]), _filters(s["w"])
    images = {"w": filters, "y": _as_one(s["y"], stack)}
    return {"stack": stack, "filters": filters, **convolution.forward_workspace(attrs, images)}


def spread_scratch(attrs: VolumeAttrs, s: Specs) -> Specs:
    taps, height, width, channels, units = s["w"].shape
    stride, dx = attrs.depth_stride, s["dx"]
    most = -(-taps * gcd(stride, attrs.depth_dilation) // stride)  # taps of a stride phase
    stack = _stack(s["dy"], most, dx.shape[1] if stride == 1 else 1)
    filters = TensorSpec((most * units, height, width, channels), FLOAT)
    images = {"w": filters, "dx": _as_one(dx, stack)}
    return {"stack": stack, "filters": filters, **convolution.back_workspace(attrs, images)}


def filter_scratch(attrs: VolumeAttrs, s: Specs) -> Specs:
    stack, filters = _stack(s["x"], s["w"].shape[0], s["dy"].shape[1]), _filters(s["w"])
    images = {"w": filters, "dy": _as_one(s["dy"], stack)}
    workspace = convolution.filter_workspace(attrs, images)
    return {"stack": stack, "filters": filters, "part": filters, **workspace}


def _images(span: slice) -> range:
    return range(span.start, span.stop, span.step or 1)


def _copies(
    volume: Array, stack: Array, taps: Sequence[Span | None], results: range, *, back: bool = False
) -> Iterator[Run]:
    """Yields the copies of the images that taps read for results side by side.

    Args:
        volume: images that are read, of x or dy.
        stack: (results, H, W, taps, C).
        taps: taps along the depth; None for one that reads no image.
        results: images of y or dx that are computed.
        back: whether they are images of dx.
    """
    for k, span in enumerate(taps):
        copies, first, stop = stack[: len(results), ..., k, :], 0, 0
        if span:
            # The tap reads sources[i] for targets[i]; of these targets, `overlap` is computed here.
            sources, targets = _images(span.ins), _images(span.outs)
            if back:
                sources, targets = targets, sources
            overlap = range(max(results[0], targets[0]), min(results[-1], targets[-1]) + 1)
            if overlap:
                first, stop = overlap[0] - results[0], overlap[-1] + 1 - results[0]
                images = sources[targets.index(overlap[0]) :][: len(overlap)]
                yield copy(volume[images[0] : images[-1] + 1 : images.step], copies[first:stop])
        for outside in (copies[:first], copies[stop:]):  # results for which the tap reads nothing
            if len(outside):
                yield copy(*zeros(outside))


def _calls(
    volumes: Array, outputs: Array, stack: Array, taps: Sequence[Span | None]
) -> Iterator[tuple[list[Run], Array, Array]]:
    """Yields, for each call: copies of images, the images, and results along the depth.

    Args:
        volumes: x.
        outputs: y, or dy.
        stack: workspace.
        taps: all taps.
    """
    for n in range(len(volumes)):
        for first in range(0, outputs.shape[1], len(stack)):
            results = range(first, min(first + len(stack), outputs.shape[1]))
            copies = list(_copies(volumes[n], stack, taps, results))
            yield copies, _merged(stack[: len(results)]), outputs[n, first : results.stop]


def _merged(images: Array) -> Array:
    """Merges taps and channels."""
    return images.reshape(*images.shape[:3], -1, copy=False)


def _all_taps(taps: Taps, w: Array) -> list[Span | None]:
    spans = {span.tap: span for span in taps}
    return [spans.get(k) for k in range(len(w))]


def _filters_at(w: Array, taps: Sequence[Span]) -> Array:
    """Returns the filters of taps at equal distances."""
    step = taps[1].tap - taps[0].tap if len(taps) > 1 else 1
    return w[taps[0].tap : taps[-1].tap + 1 : step]


def _in_order_of_images(w: Array) -> Array:
    return w.transpose(4, 1, 2, 0, 3)


def _fill(target: Array, b: Array | None = None) -> Callable[[], None]:
    """Returns a call that fills results to which no tap adds."""
    value = np.zeros((), target.dtype) if b is None else b
    return copy(np.broadcast_to(value, target.shape), target)


def correlate(
    attrs: VolumeAttrs,
    *,
    x: Array,
    w: Array,
    y: Array,
    stack: Array,
    filters: Array,
    taps: Taps,
    b: Array | None = None,
    **kwargs: Any,
) -> Callable[[], None]:
    """Returns a call that computes y = windows of x times w, plus b."""
    if not taps:
        return _fill(y, b)
    order = _in_order_of_images(w)
    runs: list[Run] = [copy(order, filters.reshape(order.shape))]
    for copies, images, results in _calls(x, y, stack, _all_taps(taps, w)):
        arguments = {**taps[0].walk, **kwargs, "b": b}
        runs += [
            *copies,
            convolution.forward(attrs, x=images, w=filters, y=results, **arguments),
        ]
    return in_order(runs)


def filter_sums(
    attrs: VolumeAttrs,
    *,
    dy: Array,
    x: Array,
    dw: Array,
    stack: Array,
    filters: Array,
    part: Array,
    taps: Taps,
    **kwargs: Any,
) -> Callable[[], None]:
    """Returns a call that computes dw = dyᵀ times windows of x."""
    if not taps:
        return _fill(dw)
    runs: list[Run] = []
    for copies, images, results in _calls(x, dy, stack, _all_taps(taps, dw)):
        sums, arguments = part if runs else filters, {**taps[0].walk, **kwargs}
        runs += [*copies, convolution.grad_w(attrs, dy=results, x=images, dw=sums, **arguments)]
        if sums is part:
            runs.append(call("add", filters, (filters, part), -np.inf, np.inf))
    order = _in_order_of_images(dw)
    return in_order([*runs, copy(filters.reshape(order.shape), order)])


def spread(
    attrs: VolumeAttrs,
    *,
    dy: Array,
    w: Array,
    dx: Array,
    stack: Array,
    filters: Array,
    taps: Taps,
    b: Array | None = None,
    **kwargs: Any,
) -> Callable[[], None]:
    """Returns a call that computes dx[i] = Σ dy[o] w[k] + b.

    The sum is over the outputs o and taps k that read input i.
    """
    stride, depth = attrs.depth_stride, dx.shape[1]
    runs: list[Run] = []
    # Input i is read by the taps whose first input is i modulo the stride: the inputs of a phase
    # have the same taps, so that each phase is a convolution of dy with the filters of these.
    for phase in range(min(stride, depth)):
        phase_taps = [span for span in taps if span.ins.start % stride == phase]
        if not phase_taps:
            runs.append(_fill(dx[:, phase::stride], b))
            continue
        order = _filters_at(w, phase_taps).transpose(0, 4, 1, 2, 3)
        # A phase with fewer taps than others uses the first part of both workspaces.
        phase_filters = filters[: order.shape[0] * order.shape[1]]
        runs.append(copy(order, phase_filters.reshape(order.shape)))
        images = stack.reshape(-1)[: stack.size // stack.shape[3] * len(phase_taps)]
        images = images.reshape(*stack.shape[:3], len(phase_taps), -1, copy=False)
        arguments = {**phase_taps[0].walk, **kwargs, "w": phase_filters, "b": b}
        if len(phase_filters) < len(filters):
            arguments.pop("tiles", None)  # tiles need filters of whole vectors
        for n in range(len(dx)):
            for first in range(phase, depth, stride * len(stack)):
                results = range(first, min(first + len(stack), depth))
                stacked = images[: len(results)]
                runs += _copies(dy[n], stacked, phase_taps, results, back=True)
                target = dx[n, first : results.stop]
                runs.append(convolution.grad_x(attrs, dy=_merged(stacked), dx=target, **arguments))
    return in_order(runs)


def compiled_form(
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

    def renamed(arguments: Mapping[str, Any]) -> dict[str, Any]:
        others = {name: value for name, value in arguments.items() if name not in roles}
        return others | {new: arguments[name] for name, new in roles.items() if name in arguments}

    def call_with(attrs: Attrs, **arrays: Any) -> Callable[[], None]:
        return run(attrs, **renamed(arrays))

    def scratch(attrs: Attrs, s: Specs) -> Specs:
        return workspace(attrs, renamed(s))

    return Compiled(call_with, lambda attrs, s: is_float32(s), scratch, prepare)
