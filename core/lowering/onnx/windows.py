"""Convolutions, and what they share with other operators on windows; channels are last.

Images come as (N, C, H, W) and leave so; core/lowering/passes/push_transposes.py cancels the
transposes between them. Sequences (N, C, W) are images of height 1.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from odt.core.lowering.onnx.builder import Use
from odt.core.model.graph import ABSENT
from odt.dataclass import dataclass
from odt.errors import ShapeError

VALID = 1  # Padding of the schema
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


def padded(u: Use, x: int, windows: Window, value: float = 0) -> int:
    """Pads images with channels last."""
    if not any(map(any, windows.pads)):
        return x
    rank = len(u.b.shape(x))
    pads = [(0, 0)] * (rank - 1 - len(windows.pads)) + [*windows.pads, (0, 0)]
    paddings = u.b.constant(pads)
    if value == 0:
        return u.b.add("PAD", (x, paddings))
    return u.b.add("PADV2", (x, paddings, u.b.constant(value, u.b.spec(x).dtype)))


def check_padding(u: Use) -> None:
    """Refuses pads beside an auto_pad, as the standard and ONNX Runtime do for convolutions."""
    auto, pads = u.attr("auto_pad", "NOTSET"), u.ints("pads") or ()
    if auto != "NOTSET" and any(pads):
        raise ShapeError(f"pads must be left out with auto_pad {auto}, but got {pads}")


def images(u: Use) -> tuple[int, ...]:
    """Returns the shape of input 0, which must be images or sequences."""
    shape = u.shape(0)
    if not 3 <= len(shape) <= 5:
        raise ShapeError(f"x must have one to three spatial axes, but got {shape}")
    return shape


def conv(u: Use) -> int:
    shape, filters, groups = images(u), u.shape(1), int(u.attr("group", 1))
    rank = len(shape)
    if len(filters) != rank or groups < 1 or filters[0] % groups:
        raise ShapeError(f"filters must fit {shape} and {groups} groups, but got {filters}")
    if filters[1] * groups != shape[1]:
        raise ShapeError(f"filters must have {shape[1]} channels, but got {filters} in {groups}")
    check_padding(u)
    windows = window(u, shape[2:], filters[2:])
    check_outputs(windows, shape[2:])
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
    else:
        op, order = "CONV_2D", (0, *range(2, rank), 1)
    memory = tuple(filters[k] for k in order)
    if rank == 3:
        memory = (memory[0], 1, *memory[1:])
    x, w = padded(u, last(u, u.input(0)), windows), u.b.weight(w, order, memory)
    bias = u.input(2) if u.has(2) else ABSENT
    return first(u, convolution(u, op, x, w, bias, groups, padding=VALID, **options), rank)


def convolution(u: Use, op: str, x: int, w: int, bias: int, groups: int, **options: Any) -> int:
    """Adds a convolution; one of volumes in groups is one for each part of the filters."""
    if op != "CONV_3D" or groups == 1:
        return u.b.add(op, (x, w, bias), **options)
    axis = u.b.constant(4)
    parts = [
        u.b.add_several("SPLIT", (axis, i), groups, u.b.spec(i).dtype, num_splits=groups)
        for i in (x, w)
    ]
    results = [u.b.add(op, (*pair, ABSENT), **options) for pair in zip(*parts, strict=True)]
    y = u.b.add("CONCATENATION", results, axis=4)
    return y if bias == ABSENT else u.b.add("ADD", (y, bias))


def check_outputs(windows: Window, sizes: Sequence[int]) -> None:
    if min(windows.outputs(sizes)) < 1:
        raise ShapeError(f"windows must fit into {tuple(sizes)}, but got {windows.extent}")


KINDS: Mapping[str, Callable[[Use], int | Sequence[int]]] = {"Conv": conv}
