"""Operators on windows: convolutions and pools, with channels last.

Images come as (N, C, H, W) and leave so; core/lowering/passes/push_transposes.py cancels the
transposes between them. Sequences (N, C, W) are images of height 1.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from odt.core.lowering.onnx.builder import Use
from odt.core.model.graph import ABSENT
from odt.dataclass import dataclass
from odt.errors import ShapeError

VALID = 1  # Padding of the schema
LOWEST = float(np.finfo(np.float32).min)
NAMES = {2: "hw", 3: "dhw"}  # of axes, by their number


@dataclass(frozen=True, slots=True)
class Window:
    """The windows of a node along its spatial axes.

    Attributes:
        kernel, stride, dilation: sizes and steps.
        pads: zeros before and after each axis.
        counted: of `pads` those that belong to the image; windows may reach beyond them where
            `ceil_mode` rounds up.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    counted: tuple[tuple[int, int], ...]

    @property
    def extent(self) -> tuple[int, ...]:
        """Sizes of the windows, with the gaps of dilation."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    def outputs(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Returns the number of windows along each axis."""
        return tuple(
            (n + sum(pad) - e) // s + 1
            for n, pad, e, s in zip(sizes, self.pads, self.extent, self.stride, strict=True)
        )


def window(u: Use, sizes: Sequence[int], kernel: Sequence[int]) -> Window:
    """Returns the windows of a convolution or pool on images of some sizes."""
    rank = len(sizes)
    declared = u.ints("kernel_shape")
    kernel = tuple(kernel) or declared or ()
    stride, dilation = (u.ints(n, (1,) * rank) or () for n in ("strides", "dilations"))
    pads = u.ints("pads", (0,) * 2 * rank) or ()
    if not len(kernel) == len(stride) == len(dilation) == rank or len(pads) != 2 * rank:
        raise ShapeError(f"kernel, strides, dilations and pads must have {rank} axes each")
    if min((*kernel, *stride, *dilation)) < 1 or min(pads) < 0:
        raise ShapeError(
            f"kernel, strides and dilations must be above 0 and pads no less than 0, "
            f"but got {kernel}, {stride}, {dilation}, {pads}"
        )
    if declared is not None and declared != kernel:
        raise ShapeError(f"kernel_shape must be that of the filters, {kernel}, but got {declared}")
    auto = u.attr("auto_pad", "NOTSET")
    both = [(pads[k], pads[k + rank]) for k in range(rank)]
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        for k, n in enumerate(sizes):
            extent = (kernel[k] - 1) * dilation[k] + 1
            total = max((-(-n // stride[k]) - 1) * stride[k] + extent - n, 0)
            half = total // 2
            both[k] = (half, total - half) if auto == "SAME_UPPER" else (total - half, half)
    elif auto == "VALID":
        both = [(0, 0)] * rank
    elif auto != "NOTSET":
        raise ShapeError(f"auto_pad must be one of the standard, but got {auto}")
    windows = Window(kernel, stride, dilation, tuple(both), tuple(both))
    return _rounded_up(windows, sizes) if u.attr("ceil_mode", 0) else windows


def _rounded_up(windows: Window, sizes: Sequence[int]) -> Window:
    """Returns windows with zeros after the images for those that start inside and end outside."""
    pads = []
    rows = zip(sizes, windows.pads, windows.extent, windows.stride, strict=True)
    for n, (lo, hi), extent, stride in rows:
        count = -(-(n + lo + hi - extent) // stride) + 1
        if (count - 1) * stride >= n + lo:
            count -= 1
        pads.append((lo, max(hi, (count - 1) * stride + extent - n - lo)))
    return Window(windows.kernel, windows.stride, windows.dilation, tuple(pads), windows.counted)


def last(u: Use, x: int) -> int:
    """Returns images or sequences with channels last; sequences as images of height 1."""
    rank = len(u.b.shape(x))
    if rank == 3:
        n, c, w = u.b.shape(x)
        return u.b.reshape(u.b.transpose(x, (0, 2, 1)), (n, 1, w, c))
    return u.b.transpose(x, (0, *range(2, rank), 1))


def first(u: Use, y: int, rank: int) -> int:
    """Returns images or sequences with channels in front, as in the file."""
    if rank == 3:
        n, _, w, c = u.b.shape(y)
        return u.b.transpose(u.b.reshape(y, (n, w, c)), (0, 2, 1))
    return u.b.transpose(y, (0, rank - 1, *range(1, rank - 1)))


def _padded(u: Use, x: int, windows: Window, value: float = 0) -> int:
    """Pads images with channels last."""
    if not any(map(any, windows.pads)):
        return x
    rank = len(u.b.shape(x))
    pads = [(0, 0)] * (rank - 1 - len(windows.pads)) + [*windows.pads, (0, 0)]
    paddings = u.b.constant(pads)
    if value == 0:
        return u.b.add("PAD", (x, paddings))
    return u.b.add("PADV2", (x, paddings, u.b.constant(value, u.b.spec(x).dtype)))


def _images(u: Use) -> tuple[int, ...]:
    """Returns the shape of input 0, which must be images or sequences."""
    shape = u.shape(0)
    if not 3 <= len(shape) <= 5:
        raise ShapeError(f"x must have one to three spatial axes, but got {shape}")
    return shape


def conv(u: Use) -> int:
    shape, filters, groups = _images(u), u.shape(1), int(u.attr("group", 1))
    rank = len(shape)
    if len(filters) != rank or groups < 1 or filters[0] % groups:
        raise ShapeError(f"filters must fit {shape} and {groups} groups, but got {filters}")
    if filters[1] * groups != shape[1]:
        raise ShapeError(f"filters must have {shape[1]} channels, but got {filters} in {groups}")
    windows = window(u, shape[2:], filters[2:])
    _check_outputs(windows, shape[2:])
    w = u.node.inputs[1]
    axes, flat = NAMES[max(rank - 2, 2)], (1,) * (rank == 3)
    options: dict[str, Any] = {
        f"stride_{k}": n for k, n in zip(axes, (*flat, *windows.stride), strict=True)
    }
    dilation = zip(axes, (*flat, *windows.dilation), strict=True)
    options |= {f"dilation_{k}_factor": n for k, n in dilation}
    depthwise = groups == shape[1] and filters[1] == 1 and groups > 1 and rank < 5
    if depthwise:
        op, options["depth_multiplier"] = "DEPTHWISE_CONV_2D", filters[0] // groups
        order: tuple[int, ...] = (1, *range(2, rank), 0)
    elif rank == 5:
        op, order = "CONV_3D", (2, 3, 4, 1, 0)
        if groups > 1:
            raise ShapeError(f"group must be 1 for volumes, but got {groups}")
    else:
        op, order = "CONV_2D", (0, *range(2, rank), 1)
    memory = tuple(filters[k] for k in order)
    if rank == 3:
        memory = (memory[0], 1, *memory[1:])
    inputs = [_padded(u, last(u, u.input(0)), windows), u.b.weight(w, order, memory)]
    inputs.append(u.input(2) if u.has(2) else ABSENT)
    return first(u, u.b.add(op, inputs, padding=VALID, **options), rank)


def _check_outputs(windows: Window, sizes: Sequence[int]) -> None:
    if min(windows.outputs(sizes)) < 1:
        raise ShapeError(f"windows must fit into {tuple(sizes)}, but got {windows.extent}")


def conv_transpose(u: Use) -> int:
    """The input gradient of a convolution; pads cut its result, output_padding lengthens it."""
    shape, filters = _images(u), u.shape(1)
    rank, axes = len(shape), len(shape) - 2
    if rank > 4 or int(u.attr("group", 1)) != 1 or len(filters) != rank:
        raise ShapeError("a transposed convolution must have one group and at most two axes")
    if set(u.ints("dilations", (1,)) or ()) != {1}:
        raise ShapeError(f"dilations must be 1, but got {u.ints('dilations')}")
    kernel, stride = filters[2:], u.ints("strides", (1,) * axes) or ()
    extra = u.ints("output_padding", (0,) * axes) or ()
    if len(stride) != axes or len(extra) != axes or min(stride) < 1:
        raise ShapeError(f"strides and output_padding must have {axes} axes each")
    full = [(n - 1) * s + k for n, s, k in zip(shape[2:], stride, kernel, strict=True)]
    cuts = _cuts(u, shape, full, stride, extra)
    memory = (filters[1], *kernel, filters[0])
    sizes = [*full]
    if rank == 3:
        memory, sizes = (memory[0], 1, *memory[1:]), [1, *sizes]
        cuts = [(0, 0), *cuts]
    w = u.b.weight(u.node.inputs[1], (1, *range(2, rank), 0), memory)
    growth = [max(0, -hi) for _, hi in cuts]
    options = dict(zip(("stride_h", "stride_w"), (1, *stride)[-2:], strict=True))
    target = (shape[0], *sizes, filters[1])
    inputs = [u.b.constant(target), w, last(u, u.input(0))]
    late = u.has(2) and any(growth)
    if u.has(2) and not late:
        inputs.append(u.input(2))
    y = u.b.add("TRANSPOSE_CONV", inputs, u.dtype(0), padding=VALID, **options)
    if any(lo or hi > 0 for lo, hi in cuts):
        begin = [0, *(lo for lo, _ in cuts), 0]
        ends = [n - max(0, hi) for n, (_, hi) in zip(sizes, cuts, strict=True)]
        parts = [u.b.constant(v) for v in (begin, [target[0], *ends, target[3]], [1] * 4)]
        y = u.b.add("STRIDED_SLICE", (y, *parts), begin_mask=9, end_mask=9)
    if any(growth):
        pads = [(0, 0), *((0, n) for n in growth), (0, 0)]
        y = u.b.add("PAD", (y, u.b.constant(pads)))
    if late:
        y = u.b.add("ADD", (y, u.input(2)))
    return first(u, y, rank)


def _cuts(
    u: Use, shape: Sequence[int], full: Sequence[int], stride: Sequence[int], extra: Sequence[int]
) -> list[tuple[int, int]]:
    """Returns how much of the full result is cut before and after; below 0: how much is added."""
    axes, auto = len(full), u.attr("auto_pad", "NOTSET")
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
            if min(lo, hi) < 0:
                raise ShapeError(f"output_shape must be at most {full}, but got {target_shape}")
            cuts.append((lo, hi - size_more))
        return cuts
    pads = u.ints("pads", (0,) * 2 * axes) or ()
    if len(pads) != 2 * axes or min(pads) < 0:
        raise ShapeError(f"pads must have {2 * axes} numbers, but got {pads}")
    return [(pads[k], pads[k + axes] - extra[k]) for k in range(axes)]


def pool(op: str, u: Use) -> int:
    shape = _images(u)
    rank = len(shape)
    windows = window(u, shape[2:], ())
    _check_outputs(windows, shape[2:])
    if rank == 5 and set(windows.dilation) == {1}:
        return _volume_pool(op, u, windows)
    if set(windows.dilation) != {1}:
        raise ShapeError(f"dilations of a pool must be 1, but got {windows.dilation}")
    is_max = op == "MAX_POOL_2D"
    x = _padded(u, last(u, u.input(0)), windows, LOWEST if is_max else 0)
    kernel, stride = ((1, *n)[-2:] for n in (windows.kernel, windows.stride))
    y = _pooled(u, op, x, kernel, stride)
    if not is_max:
        factors = _factors(u, windows, shape[2:])
        if (factors != 1).any():
            dims = (1, *factors.shape, 1) if rank == 4 else (1, 1, *factors.shape, 1)
            y = u.b.add("MUL", (y, u.b.constant(factors.reshape(dims), u.dtype(0))))
    return first(u, y, rank)


def _pooled(u: Use, op: str, x: int, kernel: Sequence[int], stride: Sequence[int]) -> int:
    """Adds a pool of images (N, H, W, C)."""
    return u.b.add(
        op,
        (x,),
        padding=VALID,
        stride_h=stride[0],
        stride_w=stride[1],
        filter_height=kernel[0],
        filter_width=kernel[1],
    )


def _volume_pool(op: str, u: Use, windows: Window) -> int:
    """Pools height and width of each slice of volumes, and then their depth."""
    is_max, sizes = op == "MAX_POOL_2D", u.shape(0)[2:]
    x = _padded(u, u.b.transpose(u.input(0), (0, 2, 3, 4, 1)), windows, LOWEST if is_max else 0)
    n, d, h, w, c = u.b.shape(x)
    od, oh, ow = windows.outputs(sizes)
    y = _pooled(u, op, u.b.reshape(x, (n * d, h, w, c)), windows.kernel[1:], windows.stride[1:])
    y = u.b.reshape(y, (n, d, oh * ow, c))
    y = _pooled(u, op, y, (windows.kernel[0], 1), (windows.stride[0], 1))
    y = u.b.reshape(y, (n, od, oh, ow, c))
    if not is_max:
        factors = _factors(u, windows, sizes)
        if (factors != 1).any():
            scale = factors.reshape((1, *factors.shape, 1))
            y = u.b.add("MUL", (y, u.b.constant(scale, u.dtype(0))))
    return u.b.transpose(y, (0, 4, 1, 2, 3))


def _factors(u: Use, windows: Window, sizes: Sequence[int]) -> np.ndarray:
    """Returns values in a window / those that count, for each window of an average."""
    include = bool(u.attr("count_include_pad", 0))
    factors = np.ones(())
    rows = zip(sizes, windows.kernel, windows.stride, windows.pads, windows.counted, strict=True)
    for (n, kernel, stride, (lo, _), (_, hi)), count in zip(
        rows, windows.outputs(sizes), strict=True
    ):
        start = np.arange(count) * stride - lo
        least, most = (-lo, n + hi) if include else (0, n)
        cells = np.minimum(start + kernel, most) - np.maximum(start, least)
        factors = np.multiply.outer(factors, kernel / np.maximum(cells, 1))
    return factors


def global_pool(op: str, u: Use) -> int:
    axes = u.b.constant([*range(2, len(_images(u)))])
    return u.b.add(op, (u.input(0), axes), keep_dims=True)


KINDS: Mapping[str, Callable[[Use], int | Sequence[int]]] = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "MaxPool": partial(pool, "MAX_POOL_2D"),
    "AveragePool": partial(pool, "AVERAGE_POOL_2D"),
    "GlobalAveragePool": partial(global_pool, "MEAN"),
    "GlobalMaxPool": partial(global_pool, "REDUCE_MAX"),
}
