"""Transposed convolutions, with channels last."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from odt.core.lowering.onnx.builder import Use
from odt.core.lowering.onnx.windows import (
    NAMES,
    VALID,
    check_padding,
    convolution,
    first,
    images,
    last,
)
from odt.core.model.graph import ABSENT
from odt.errors import ShapeError


def conv_transpose(u: Use) -> int:
    """The input gradient of a convolution; pads cut its result, output_padding lengthens it."""
    shape, filters, groups = images(u), u.shape(1), int(u.attr("group", 1))
    rank, axes = len(shape), len(shape) - 2
    if len(filters) != rank or groups < 1 or shape[1] % groups or filters[0] != shape[1]:
        raise ShapeError(f"filters must fit {shape} and {groups} groups, but got {filters}")
    kernel, declared = filters[2:], u.ints("kernel_shape")
    if declared is not None and declared != kernel:
        raise ShapeError(f"kernel_shape must be that of the filters, {kernel}, but got {declared}")
    stride, dilation = (u.ints(n, (1,) * axes) or () for n in ("strides", "dilations"))
    extra = u.ints("output_padding", (0,) * axes) or ()
    if {len(stride), len(dilation), len(extra)} != {axes}:
        raise ShapeError(f"strides, dilations and output_padding must have {axes} axes each")
    check_padding(u)
    if min((*stride, *dilation)) < 1:
        raise ShapeError(f"strides and dilations must be above 0, but got {stride}, {dilation}")
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    full = [(n - 1) * s + e for n, s, e in zip(shape[2:], stride, extents, strict=True)]
    cuts = _cuts(u, shape, full, stride, extra)
    if any(n - lo - hi < 1 for n, (lo, hi) in zip(full, cuts, strict=True)):
        raise ShapeError(f"pads must leave some of {full}, but got {cuts}")
    if rank > 4 or groups > 1 or set(dilation) != {1}:
        return _spread(u, groups, stride, dilation, extents, cuts)
    memory = (filters[1], *kernel, filters[0])
    sizes = [*full]
    if rank == 3:
        memory, sizes = (memory[0], 1, *memory[1:]), [1, *sizes]
        cuts = [(0, 0), *cuts]
    w = u.b.weight(u.node.inputs[1], (1, *range(2, rank), 0), memory)
    options = dict(zip(("stride_h", "stride_w"), (1, *stride)[-2:], strict=True))
    target = (shape[0], *sizes, filters[1])
    inputs = [u.b.constant(target), w, last(u, u.input(0))]
    # Appended values have the bias only, which is then added after them.
    bias_last = u.has(2) and any(hi < 0 for _, hi in cuts)
    if u.has(2) and not bias_last:
        inputs.append(u.input(2))
    y = u.b.add("TRANSPOSE_CONV", inputs, u.dtype(0), padding=VALID, **options)
    y = _cut(u, y, cuts)
    if bias_last:
        y = u.b.add("ADD", (y, u.input(2)))
    return first(u, y, rank)


def _cut(u: Use, y: int, cuts: Sequence[tuple[int, int]]) -> int:
    """Cuts a result, channels last, before and after its axes; below 0: appends zeros."""
    n, *sizes, units = u.b.shape(y)
    if any(lo or hi > 0 for lo, hi in cuts):
        begin = [0, *(lo for lo, _ in cuts), 0]
        end = [m - max(0, hi) for m, (_, hi) in zip(sizes, cuts, strict=True)]
        open_axes = 0b1001  # samples and channels
        y = u.b.slice(y, begin, [n, *end, units], begin_mask=open_axes, end_mask=open_axes)
    growth = [max(0, -hi) for _, hi in cuts]
    if any(growth):
        pads = [(0, 0), *((0, m) for m in growth), (0, 0)]
        y = u.b.add("PAD", (y, u.b.constant(pads)))
    return y


def _spread(
    u: Use,
    groups: int,
    stride: Sequence[int],
    dilation: Sequence[int],
    extents: Sequence[int],
    cuts: Sequence[tuple[int, int]],
) -> int:
    """Puts zeros between the values of x, and convolves them with the reversed filters.

    Args:
        u: the node.
        groups: groups of channels.
        stride: steps of the result for one step of x, along each axis.
        dilation: steps between the taps of the filters, along each axis.
        extents: sizes of the filters, with the gaps of dilation.
        cuts: how much of the full result is cut before and after.
    """
    shape, filters, axes = u.shape(0), u.shape(1), len(extents)
    steps = [1] * (axes == 1) + [*stride]
    x = last(u, u.input(0))
    n, *sizes, channels = u.b.shape(x)
    if set(steps) != {1}:
        pairs = [m for size in sizes for m in (size, 1)]
        x = u.b.reshape(x, (n, *pairs, channels))
        pads = [(0, 0), *(p for s in steps for p in ((0, 0), (0, s - 1))), (0, 0)]
        x = u.b.add("PAD", (x, u.b.constant(pads)))
        sizes = [size * s for size, s in zip(sizes, steps, strict=True)]
        x = u.b.reshape(x, (n, *sizes, channels))
    around = [
        (e - 1 - lo, e - 1 - hi - (s - 1))
        for e, s, (lo, hi) in zip(extents, stride, cuts, strict=True)
    ]
    around = [(0, 0)] * (axes == 1) + around
    if any(min(pair) < 0 for pair in around):
        begin = [0, *(max(-lo, 0) for lo, _ in around), 0]
        end = [n, *(m - max(-hi, 0) for m, (_, hi) in zip(sizes, around, strict=True)), channels]
        x = u.b.slice(x, begin, end)
        around = [(max(lo, 0), max(hi, 0)) for lo, hi in around]
    if any(map(any, around)):
        x = u.b.add("PAD", (x, u.b.constant([(0, 0), *around, (0, 0)])))
    op, w = _reversed_filters(u, groups)
    names = NAMES[max(axes, 2)]
    options: dict[str, Any] = {f"stride_{k}": 1 for k in names}
    gaps = [1] * (axes == 1) + [*dilation]
    options |= {f"dilation_{k}_factor": d for k, d in zip(names, gaps, strict=True)}
    if op == "DEPTHWISE_CONV_2D":
        options["depth_multiplier"] = filters[1]
    bias = u.input(2) if u.has(2) else ABSENT
    y = convolution(u, op, x, w, bias, groups, padding=VALID, **options)
    return first(u, y, len(shape))


def _reversed_filters(u: Use, groups: int) -> tuple[str, int]:
    """Returns the operator, and filters (C, O / groups, …) with turned axes in its layout."""
    filters = u.shape(1)
    channels, units, *kernel = filters
    flat = [1] * (len(kernel) == 1) + kernel
    spatial, i = range(2, len(filters)), u.node.inputs[1]
    if len(kernel) < 3 and groups == channels:
        w = u.b.weight(i, (*spatial, 0, 1), (1, *flat, channels * units))
        return "DEPTHWISE_CONV_2D", u.b.add("REVERSE_V2", (w, u.b.constant([1, 2])))
    each, spatial = channels // groups, range(3, len(filters) + 1)
    divided = (groups, each, units, *kernel)
    if len(kernel) < 3:
        w = u.b.weight(i, (0, 2, *spatial, 1), (groups * units, *flat, each), divided)
        return "CONV_2D", u.b.add("REVERSE_V2", (w, u.b.constant([1, 2])))
    w = u.b.weight(i, (*spatial, 1, 0, 2), (*kernel, each, groups * units), divided)
    return "CONV_3D", u.b.add("REVERSE_V2", (w, u.b.constant([0, 1, 2])))


def _cuts(
    u: Use, shape: Sequence[int], full: Sequence[int], stride: Sequence[int], extra: Sequence[int]
) -> list[tuple[int, int]]:
    """Returns how much of the full result is cut before and after; below 0: how much is added."""
    axes, auto = len(full), u.attr("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise ShapeError(f"auto_pad must be one of the standard, but got {auto}")
    target_shape = u.ints("output_shape")
    if target_shape is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        target_shape = tuple(n * s for n, s in zip(shape[2:], stride, strict=True))
    if target_shape is not None:
        if len(target_shape) == axes + 2:
            target_shape = target_shape[2:]
        if len(target_shape) != axes:
            raise ShapeError(f"output_shape must have {axes} axes, but got {target_shape}")
        cuts = []
        for size, target, size_more in zip(full, target_shape, extra, strict=True):
            total = size + size_more - target
            half = total // 2
            lo, hi = (half, total - half) if auto == "SAME_UPPER" else (total - half, half)
            if total < 0:  # zeros behind the result, or a shorter one than SAME would have
                lo, hi = 0, total if u.ints("output_shape") else 0
            cuts.append((lo, hi - size_more))
        return cuts
    pads = u.ints("pads", (0,) * 2 * axes) or ()
    if len(pads) != 2 * axes or min(pads) < 0:
        raise ShapeError(f"pads must have {2 * axes} numbers, but got {pads}")
    return [(pads[k], pads[k + axes] - extra[k]) for k in range(axes)]


KINDS: Mapping[str, Callable[[Use], int | Sequence[int]]] = {"ConvTranspose": conv_transpose}
