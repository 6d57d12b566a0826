"""Operators that need shapes only: they move values, or compute them from shapes and constants.

That is reshaping, slices, joins, padding, matrices with zeros, ranges, cumulative sums and windows.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from odt.core.lowering.onnx.arithmetic import type_of
from odt.core.lowering.onnx.builder import INT64, NCHW_TO_NHWC, NHWC_TO_NCHW, Use
from odt.core.model.graph import MAX_AXES
from odt.errors import ShapeError
from odt.kernels.rows.opdef import Array

INT64_TYPE = 4  # TensorType of the schema
MAX_SIZE = 1 << 24  # values that a node adds, as padding or as a constant; largest length
REFLECT = 0  # MirrorPadMode of the schema


def shape(u: Use) -> int:
    y = u.b.add("SHAPE", (u.input(0),), INT64, out_type=INT64_TYPE)
    rank = u.rank(0)
    start, end = (
        max(0, min(rank, n + rank if n < 0 else n))
        for n in (int(u.attr("start", 0)), int(u.attr("end", rank)))
    )
    if (start, end) == (0, rank):
        return y
    return u.b.slice(y, [start], [max(start, end)])


def size(u: Use) -> int:
    return u.b.constant(u.b.spec(u.raw(0)).size, INT64)


def constant_of_shape(u: Use) -> int:
    value = u.attr("value", np.zeros(1, np.float32))
    if not isinstance(value, np.ndarray) or value.size != 1:
        raise ShapeError("value must be one number, but got others")
    dims = u.numbers(0, "the shape")
    if len(dims) > MAX_AXES:
        raise ShapeError(f"the shape must have at most {MAX_AXES} axes, but got {len(dims)}")
    if min(dims, default=0) < 0:
        raise ShapeError(f"the shape must have no axis below 0, but got {dims}")
    return u.b.add("FILL", (u.b.constant(dims), u.b.constant(value.reshape(()), value.dtype)))


def reshape(u: Use) -> int:
    target = u.ints("shape") if u.opset < 5 else u.numbers(1, "the shape")
    dims = list(target or ())
    before = u.shape(0)
    if not u.attr("allowzero", 0):
        if any(n == 0 and k >= len(before) for k, n in enumerate(dims)):
            raise ShapeError(f"a 0 must stand for an axis of {before}, but got {dims}")
        dims = [before[k] if n == 0 else n for k, n in enumerate(dims)]
    count = int(np.prod(before, dtype=object))
    if dims.count(-1) == 1:
        rest = int(np.prod([n for n in dims if n != -1], dtype=object))
        if rest == 0 or count % rest:
            raise ShapeError(f"{before} must be a multiple of the shape, but got {dims}")
        dims = [count // rest if n == -1 else n for n in dims]
    if min(dims, default=0) < 0 or int(np.prod(dims, dtype=object)) != count:
        raise ShapeError(f"a shape must have the values of {before}, but got {dims}")
    x, y = u.raw(0), u.node.outputs[0]
    if u.b.tensors[x].data is not None and u.dtype(0).kind == "f" and u.b.is_filter(y):
        u.b.turn(x, dims, range(len(dims)), y)
        return y
    return u.b.reshape(u.input(0), dims)


def flatten(u: Use) -> int:
    before, rank = u.shape(0), u.rank(0)
    axis = int(u.attr("axis", 1))
    if not -rank <= axis <= rank:
        raise ShapeError(f"axis must be {-rank} to {rank}, but got {axis}")
    axis = axis + rank if axis < 0 else axis
    lead, rest = (int(np.prod(part)) for part in (before[:axis], before[axis:]))
    return u.b.reshape(u.input(0), (lead, rest))


def axes_of(u: Use) -> tuple[int, ...] | None:
    """Returns axes, which are an attribute or input 1; None if they are absent."""
    axes = u.ints("axes")
    return u.numbers(1, "axes") if axes is None and u.has(1) else axes


def squeeze(u: Use) -> int:
    before = u.shape(0)
    axes = axes_of(u)
    if axes is None:
        gone = {k for k, n in enumerate(before) if n == 1}
    else:
        gone = {u.axis(k, len(before)) for k in axes}
        if any(before[k] != 1 for k in gone):
            raise ShapeError(f"axes must have length 1, but got {axes} of {before}")
    return u.b.reshape(u.input(0), [n for k, n in enumerate(before) if k not in gone])


def unsqueeze(u: Use) -> int:
    axes = axes_of(u) or ()
    dims = list(u.shape(0))
    rank = len(dims) + len(axes)
    if rank > MAX_AXES:
        raise ShapeError(f"must have at most {MAX_AXES} axes, but got {rank}")
    for k in sorted(u.axis(k, rank) for k in axes):
        dims.insert(k, 1)
    return u.b.reshape(u.input(0), dims)


def transpose(u: Use) -> int:
    rank = u.rank(0)
    order = u.ints("perm", range(rank)[::-1])
    if order is None or sorted(order) != [*range(rank)]:
        raise ShapeError(f"perm must be an order of {rank} axes, but got {order}")
    x, y = u.raw(0), u.node.outputs[0]
    if u.b.tensors[x].data is not None and u.dtype(0).kind == "f" and y not in u.b.graph.outputs:
        u.b.turn(x, u.shape(0), order, y)
        return y
    return u.b.transpose(u.input(0), order)


def concat(u: Use) -> int:
    inputs = [u.input(k) for k in range(len(u.node.inputs))]
    if not inputs:
        raise ShapeError("must have an input, but got none")
    axis = u.axis(int(u.attr("axis", 1)), u.rank(0))
    # As in onnxruntime, inputs without values add nothing to others, whatever shape they have.
    inputs = [x for x in inputs if 0 not in u.b.shape(x)] or _without_values(u, inputs, axis)
    return inputs[0] if len(inputs) == 1 else u.b.add("CONCATENATION", inputs, axis=axis)


def _without_values(u: Use, inputs: Sequence[int], axis: int) -> list[int]:
    """Joins inputs without values; returns the only input of the result."""
    shapes = [u.b.shape(x) for x in inputs]
    if len({(len(shape), *shape[:axis], *shape[axis + 1 :]) for shape in shapes}) > 1:
        raise ShapeError(f"inputs must differ along axis {axis} only, but got {shapes}")
    dims = [*shapes[0]]
    dims[axis] = sum(shape[axis] for shape in shapes)
    return [u.b.reshape(inputs[0], dims)]


def slice_of(u: Use) -> int:
    before = u.shape(0)
    if u.opset < 10:
        starts, ends = u.ints("starts", ()) or (), u.ints("ends", ()) or ()
        axes, steps = u.ints("axes"), None
    else:
        starts, ends = u.numbers(1, "starts"), u.numbers(2, "ends")
        axes = u.numbers(3, "axes") if u.has(3) else None
        steps = u.numbers(4, "steps") if u.has(4) else None
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise ShapeError("starts, ends, axes and steps must fit each other, but do not")
    begin, end, stride = [0] * len(before), list(before), [1] * len(before)
    masks = (1 << len(before)) - 1
    begin_mask = end_mask = masks
    for axis, start, stop, step in zip(axes, starts, ends, steps, strict=True):
        k = u.axis(axis, len(before))
        n = before[k]
        first, last = (v + n if v < 0 else v for v in (start, stop))
        if step > 0:
            first, last = max(0, min(n, first)), max(0, min(n, last))
            is_open = last == n
        else:
            first, last = max(0, min(n - 1, first)), max(-1, min(n - 1, last))
            is_open = last < 0
        begin[k], end[k], stride[k] = first, max(last, 0), step
        if first != 0 or step < 0:
            begin_mask &= ~(1 << k)
        if not is_open:
            end_mask &= ~(1 << k)
    if (begin_mask, end_mask) == (masks, masks) and set(stride) <= {1}:
        return u.raw(0)
    return u.b.slice(u.input(0), begin, end, stride, begin_mask=begin_mask, end_mask=end_mask)


def split(u: Use) -> list[int]:
    before = u.shape(0)
    count = len(u.node.outputs)
    if not count or u.attr("num_outputs", count) != count:
        raise ShapeError(f"num_outputs must be that of the outputs, above 0, but got {count}")
    axis = u.axis(int(u.attr("axis", 0)), len(before))
    sizes = u.ints("split")
    if sizes is None and u.has(1):
        sizes = u.numbers(1, "the sizes")
    if sizes is None:
        each = -(-before[axis] // count)
        sizes = tuple(max(0, min(each, before[axis] - k * each)) for k in range(count))
    if len(sizes) != count or sum(sizes) != before[axis] or min(sizes, default=0) < 0:
        raise ShapeError(f"sizes must add up to {before[axis]}, but got {sizes}")
    if len(sizes) == 1:
        return [u.input(0)]
    inputs = (u.input(0), u.b.constant(sizes), u.b.constant(axis))
    return u.b.add_several("SPLIT_V", inputs, count, num_splits=count)


def expand(u: Use) -> int:
    before, target = u.shape(0), u.numbers(1, "the shape")
    try:
        dims = np.broadcast_shapes(before, target) if len(target) <= MAX_AXES else target
    except ValueError as e:
        raise ShapeError(f"{before} must broadcast to the shape, but got {target}") from e
    if dims == before:
        return u.raw(0)
    return u.b.add("BROADCAST_TO", (u.input(0), u.b.constant(dims)))


def tile(u: Use) -> int:
    return u.b.add("TILE", (u.input(0), u.b.constant(u.numbers(1, "repeats"))))


def range_of(u: Use) -> int:
    inputs = [u.b.constant(u.scalar(k, "the range"), u.dtype(k)) for k in range(3)]
    return u.b.add("RANGE", inputs, u.dtype(0))


def pad(u: Use) -> int:
    """Pads the ends of axes; negative numbers cut them."""
    before = u.shape(0)
    mode = u.attr("mode", "constant")
    pads = (u.ints("pads") or u.ints("paddings") or ()) if u.opset < 11 else u.numbers(1, "pads")
    axes: Sequence[int] = range(len(before))
    if u.opset >= 18 and u.has(3):
        axes = [u.axis(k, len(before)) for k in u.numbers(3, "axes")]
    if len(pads) != 2 * len(axes):
        raise ShapeError(f"pads must have two numbers for each axis, but got {pads}")
    if sum(map(abs, pads)) > MAX_SIZE:
        raise ShapeError(f"pads must be at most {MAX_SIZE} in all, but got {pads}")
    both = np.zeros((len(before), 2), np.int64)
    for k, axis in enumerate(axes):
        both[axis] = pads[k], pads[k + len(axes)]
    x = u.input(0)
    if (both < 0).any():
        begin, end = np.maximum(-both[:, 0], 0), np.array(before) - np.maximum(-both[:, 1], 0)
        x = u.b.slice(x, begin, end)
        both = np.maximum(both, 0)
    if not both.any():
        return x
    paddings = u.b.constant(both)
    if mode == "reflect":
        return u.b.add("MIRROR_PAD", (x, paddings), mode=REFLECT)
    if mode == "edge":
        return _repeated(u, x, both, wraps=False)
    if mode == "wrap":
        return _repeated(u, x, both, wraps=True)
    if mode != "constant":
        raise ShapeError(f"mode must be constant, edge, reflect or wrap, but got {mode}")
    fill = u.attr("value", 0.0) if u.opset < 11 else 0.0
    if u.opset >= 11 and u.has(2):
        fill = u.scalar(2, "the value of padding").item()
    if fill == 0:
        return u.b.add("PAD", (x, paddings))
    return u.b.add("PADV2", (x, paddings, u.b.constant(fill, u.dtype(0))))


def _repeated(u: Use, x: int, pads: Array, wraps: bool) -> int:
    """Repeats the first and last values along each axis, or all of them."""
    for axis, (before, after) in enumerate(pads.tolist()):
        n = u.b.shape(x)[axis]
        if before or after:
            places = np.arange(-before, n + after)
            indices = places % max(n, 1) if wraps else np.clip(places, 0, n - 1)
            x = u.b.add("GATHER", (x, u.b.constant(indices)), axis=axis)
    return x


def depth_to_space(u: Use) -> int:
    before = u.shape(0)
    block = int(u.attr("blocksize", 0))
    if len(before) != 4 or block < 1 or before[1] % (block * block):
        raise ShapeError(f"x must be (N, C · {block}², H, W), but got {before}")
    if u.attr("mode", "DCR") == "DCR":
        x = u.b.transpose(u.input(0), NCHW_TO_NHWC)
        y = u.b.add("DEPTH_TO_SPACE", (x,), block_size=block)
        return u.b.transpose(y, NHWC_TO_NCHW)
    n, c, h, w = before
    c //= block * block
    x = u.b.reshape(u.input(0), (n, c, block, block, h, w))
    x = u.b.transpose(x, (0, 1, 4, 2, 5, 3))
    return u.b.reshape(x, (n, c, h * block, w * block))


def space_to_depth(u: Use) -> int:
    if u.attr("mode", "DCR") != "DCR":
        raise ShapeError(f"mode must be DCR, but got {u.attr('mode')}")
    x = u.b.transpose(u.input(0), NCHW_TO_NHWC)
    y = u.b.add("SPACE_TO_DEPTH", (x,), block_size=int(u.attr("blocksize", 0)))
    return u.b.transpose(y, NHWC_TO_NCHW)


def trilu(u: Use) -> int:
    """Keeps the values above a diagonal and on it, or those below and on it; others become 0."""
    if u.rank(0) < 2:
        raise ShapeError(f"x must hold matrices, but got {u.shape(0)}")
    rows, columns = u.shape(0)[-2:]
    k = u.number(1, "k") if u.has(1) else 0
    if rows * columns > MAX_SIZE:
        raise ShapeError(f"matrices must have at most {MAX_SIZE} values, but got {u.shape(0)}")
    distance = np.arange(columns) - np.arange(rows)[:, None]
    mask = distance >= k if u.attr("upper", 1) else distance <= k
    x = u.input(0)
    if u.dtype(0).kind == "b":
        return u.b.add("LOGICAL_AND", (x, u.b.constant(mask, bool)))
    zero = u.b.constant(0, u.dtype(0))
    return u.b.add("SELECT_V2", (u.b.constant(mask, bool), x, zero))


def eye_like(u: Use) -> int:
    shape = u.shape(0)
    if len(shape) != 2 or math.prod(shape) > MAX_SIZE:
        raise ShapeError(f"x must be a small matrix, but got {shape}")
    dtype = type_of(u.attr("dtype", 0)) if "dtype" in u.source.attributes else u.dtype(0)
    return u.b.constant(np.eye(*shape, k=int(u.attr("k", 0))), dtype)


def center_crop_pad(u: Use) -> int:
    """Cuts or pads both ends of axes alike; of an odd difference, the end takes more."""
    before, target = u.shape(0), u.numbers(1, "the shape")
    axes = [u.axis(k, len(before)) for k in u.ints("axes", range(len(before))) or ()]
    if len(axes) != len(target) or min(target, default=1) < 1:
        raise ShapeError(f"the shape must have {len(axes)} numbers above 0, but got {target}")
    x = u.input(0)
    begin, end = [0] * len(before), [*before]
    pads = np.zeros((len(before), 2), np.int64)
    for k, n in zip(axes, target, strict=True):
        if n > MAX_SIZE:
            raise ShapeError(f"a length must be at most {MAX_SIZE}, but got {n}")
        growth = n - before[k]
        if growth > 0:
            pads[k] = growth // 2, growth - growth // 2
        else:
            begin[k] = -growth // 2
            end[k] = begin[k] + n
    if end != [*before]:
        x = u.b.slice(x, begin, end)
    return u.b.add("PAD", (x, u.b.constant(pads))) if pads.any() else x


# Coefficients of cos(2πkn / N), from k = 0 on.
WINDOWS = {
    "HannWindow": (0.5, -0.5),
    "HammingWindow": (25 / 46, -21 / 46),
    "BlackmanWindow": (0.42, -0.5, 0.08),
}


def signal_window(coefficients: Sequence[float], u: Use) -> int:
    """A constant window of a Fourier analysis."""
    size = u.number(0, "size")
    if not 0 < size <= MAX_SIZE:
        raise ShapeError(f"size must be 1 to {MAX_SIZE}, but got {size}")
    period = size if u.attr("periodic", 1) else max(size - 1, 1)
    angles = 2 * np.pi * np.arange(size) / period
    window = sum(c * np.cos(k * angles) for k, c in enumerate(coefficients))
    return u.b.constant(window, type_of(u.attr("output_datatype", 1)))


def cumsum(u: Use) -> int:
    axis = u.b.constant(u.number(1, "axis"))
    exclusive, reverse = bool(u.attr("exclusive", 0)), bool(u.attr("reverse", 0))
    return u.b.add("CUMSUM", (u.input(0), axis), exclusive=exclusive, reverse=reverse)


KINDS: Mapping[str, Callable[[Use], int | Sequence[int]]] = {
    "Shape": shape,
    "Size": size,
    "ConstantOfShape": constant_of_shape,
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Transpose": transpose,
    "Concat": concat,
    "Slice": slice_of,
    "Split": split,
    "Expand": expand,
    "Tile": tile,
    "Range": range_of,
    "Pad": pad,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "CumSum": cumsum,
    "Trilu": trilu,
    "EyeLike": eye_like,
    "CenterCropPad": center_crop_pad,
    **{kind: partial(signal_window, c) for kind, c in WINDOWS.items()},
}
