"""Operators that select or replace values by their positions.

Positions that follow from constants are computed here; others are numbers of a flat tensor. Both
are positions within a sample, which is a row (1, …) of the tensors that are gathered from.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from odt.core.lowering.graph_builder import inverse
from odt.core.lowering.onnx.arithmetic import number
from odt.core.lowering.onnx.builder import INT32, INT64, Use
from odt.errors import ShapeError
from odt.kernels.rows.opdef import Array

MAX_REPEATS = 64  # updates of one value that are combined one after the other
MAX_POSITIONS = 1 << 24
COMBINED = {"add": "ADD", "mul": "MUL", "max": "MAXIMUM", "min": "MINIMUM"}


def gather(u: Use) -> int:
    """Selects along an axis; negative indices count from its end."""
    axis = u.axis(int(u.attr("axis", 0)), u.rank(0))
    indices = u.input(1)
    values = u.b.value(indices)
    length = u.shape(0)[axis]
    if values is not None and values.ndim == 0 and u.dtype(0).kind == "f":
        return _entry(u, axis, int(values))
    if values is not None and values.size:
        if values.min() < -length or values.max() >= length:
            raise ShapeError(
                f"indices must be {-length} to {length - 1}, "
                f"but got {values.min()} to {values.max()}"
            )
        if values.min() < 0:
            indices = u.b.constant(np.where(values < 0, values + length, values), INT32)
    return u.b.add("GATHER", (u.input(0), indices), axis=axis)


def _entry(u: Use, axis: int, k: int) -> int:
    """Returns the slice at an index: a view or a part of a split, which a GATHER is not."""
    before = u.shape(0)
    length = before[axis]
    if not -length <= k < length:
        raise ShapeError(f"indices must be {-length} to {length - 1}, but got {k}")
    begin, end = [0] * len(before), list(before)
    begin[axis], end[axis] = k % length, k % length + 1
    masks = ((1 << len(before)) - 1) & ~(1 << axis)  # all other axes are open
    y = u.b.slice(u.input(0), begin, end, begin_mask=masks, end_mask=masks)
    return u.b.reshape(y, (*before[:axis], *before[axis + 1 :]))


def from_end(values: Array, lengths: Sequence[int] | int) -> Array:
    """Returns constant indices counted from 0, checked."""
    if (values < -np.array(lengths)).any() or (values >= lengths).any():
        raise ShapeError(
            f"indices must be those of {lengths}, but got {values.min()} … {values.max()}"
        )
    return np.where(values < 0, values + np.array(lengths), values).astype(np.int64)


def wrapped(u: Use, x: int, lengths: Sequence[int] | int) -> int:
    """Returns computed indices counted from 0."""
    dtype = u.b.spec(x).dtype
    below = u.b.add("LESS", (x, u.b.constant(0, dtype)))
    later = u.b.add("ADD", (x, u.b.constant(lengths, dtype)))
    return u.b.add("SELECT_V2", (below, later, x))


def _along(shape: Sequence[int], indices: Sequence[int], axis: int) -> tuple[Array, int]:
    """Returns the flat positions of an axis' first entry, and the stride of that axis."""
    others = [k for k in range(len(shape)) if k != axis]
    if len(indices) != len(shape) or any(indices[k] > shape[k] for k in others):
        raise ShapeError(f"indices must fit {tuple(shape)}, but got {tuple(indices)}")
    if math.prod(indices) > MAX_POSITIONS:
        raise ShapeError(f"there must be at most {MAX_POSITIONS} indices, but got {indices}")
    strides = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    grid = np.indices(tuple(indices), sparse=True)
    base = sum((grid[k] * strides[k] for k in others), 0)
    return np.broadcast_to(base, tuple(indices)), strides[axis]


def element_positions(u: Use, axis: int) -> Array | int:
    """Returns the flat positions that input 1 selects along an axis: values, or a tensor."""
    shape = u.shape(0)
    base, stride = _along(shape, u.shape(1), axis)
    x = u.input(1)
    values = u.b.value(x)
    if values is not None:
        positions: Array = base + from_end(values, shape[axis]) * stride
        return positions
    dtype = u.b.spec(x).dtype
    steps = wrapped(u, x, shape[axis])
    if stride != 1:
        steps = u.b.add("MUL", (steps, u.b.constant(stride, dtype)))
    return u.b.add("ADD", (steps, u.b.constant(base, dtype))) if base.any() else steps


def tuple_positions(u: Use, batch: int) -> tuple[Array | int, int]:
    """Returns the flat positions of entries that tuples in input 1 select, and their width."""
    shape = u.shape(0)
    lead, depth = u.shape(1)[:-1], u.shape(1)[-1]
    if batch + depth > len(shape) or lead[:batch] != shape[:batch] or depth < 1:
        raise ShapeError(f"indices must fit {shape}, but got {u.shape(1)}")
    if math.prod(lead) > MAX_POSITIONS:
        raise ShapeError(f"there must be at most {MAX_POSITIONS} indices, but got {lead}")
    lengths = shape[batch : batch + depth]
    strides = [math.prod(lengths[i + 1 :]) for i in range(depth)]
    first = np.arange(math.prod(lead[:batch])) * math.prod(lengths)
    base = np.broadcast_to(first.reshape((*lead[:batch], *[1] * (len(lead) - batch))), lead)
    width = math.prod(shape[batch + depth :])
    x = u.input(1)
    values = u.b.value(x)
    if values is not None:
        return base + (from_end(values, lengths) * strides).sum(-1), width
    dtype = u.b.spec(x).dtype
    x = u.b.add("MUL", (wrapped(u, x, lengths), u.b.constant(strides, dtype)))
    x = u.b.add("SUM", (x, u.b.constant([len(lead)])), keep_dims=False)
    return u.b.add("ADD", (x, u.b.constant(base, dtype))) if base.any() else x, width


def selected(u: Use, positions: Array | int, width: int, shape: Sequence[int]) -> int:
    """Returns entries of input 0, of `width` values, at flat positions."""
    x = u.input(0)
    count = math.prod(u.b.shape(x)) // max(width, 1)
    dims = (count, width) if width != 1 else (count,)
    if not isinstance(positions, int):
        at = u.b.constant(positions.reshape(-1))
        y = u.b.add("GATHER", (u.b.reshape(x, (1, *dims)), at), axis=1)
        return u.b.reshape(y, shape)
    at = u.b.reshape(positions, (1, math.prod(u.b.shape(positions))))
    if u.b.tensors[x].data is not None:  # one table for all samples
        return u.b.reshape(u.b.add("GATHER", (u.b.reshape(x, dims), at), axis=0), shape)
    table = u.b.reshape(x, (1, *dims))
    return u.b.reshape(u.b.add("GATHER", (table, at), axis=1, batch_dims=1), shape)


def gather_elements(u: Use) -> int:
    axis = u.axis(int(u.attr("axis", 0)), u.rank(0))
    return selected(u, element_positions(u, axis), 1, u.shape(1))


def gather_nd(u: Use) -> int:
    batch = int(u.attr("batch_dims", 0))
    if not u.shape(1) or not 0 <= batch < len(u.shape(1)):
        raise ShapeError(f"batch_dims must be axes of {u.shape(1)}, but got {batch}")
    positions, width = tuple_positions(u, batch)
    rest = u.shape(0)[batch + u.shape(1)[-1] :]
    return selected(u, positions, width, (*u.shape(1)[:-1], *rest))


def replaced(u: Use, positions: Array | int, width: int) -> int:
    """Returns input 0 with values of input 2 at flat positions, or combined with them."""
    shape = u.shape(0)
    how = u.attr("reduction", "none")
    if how != "none" and how not in COMBINED:
        raise ShapeError(f"reduction must be none, {', '.join(COMBINED)}, but got {how}")
    count = math.prod(shape) // max(width, 1)
    x, updates = u.input(0), u.input(2)
    if isinstance(positions, int):
        return _replaced_at(u, positions, width, count)
    at = positions.reshape(-1)
    if math.prod(u.shape(2)) != len(at) * width:
        raise ShapeError(f"updates must fit the indices, {u.shape(1)}, but got {u.shape(2)}")
    if not at.size:
        return x
    new = u.b.reshape(updates, (1, len(at), width))
    old = u.b.reshape(x, (1, count, width))
    if how == "none":  # the last update of an entry wins
        source = np.arange(count)
        source[at] = count + np.arange(len(at))
        both = u.b.add("CONCATENATION", (old, new), axis=1)
        return u.b.reshape(u.b.add("GATHER", (both, u.b.constant(source)), axis=1), shape)
    neutral = {"add": 0, "mul": 1, "max": -np.inf, "min": np.inf}[how]
    fill = u.b.constant(np.full((1, 1, width), neutral), u.dtype(0))
    table = u.b.add("CONCATENATION", (new, fill), axis=1)
    for source in _rounds(at, count):
        update = u.b.add("GATHER", (table, u.b.constant(source)), axis=1)
        old = u.b.add(COMBINED[how], (old, update))
    return u.b.reshape(old, shape)


def _rounds(at: Array, count: int) -> list[Array]:
    """Returns for each entry the update to combine with it, in as many rounds as are needed.

    An entry without an update in a round gets number len(at), that of the neutral value.
    """
    rounds: list[Array] = []
    left = np.arange(len(at))
    while left.size:
        if len(rounds) == MAX_REPEATS:
            raise ShapeError(f"an index must occur at most {MAX_REPEATS} times, but got more")
        source = np.full(count, len(at))
        _, first = np.unique(at[left], return_index=True)
        source[at[left[first]]] = left[first]
        rounds.append(source)
        left = np.delete(left, first)
    return rounds


def _replaced_at(u: Use, positions: int, width: int, count: int) -> int:
    """Returns input 0 with values at computed positions, each of which occurs once, or sums."""
    shape = u.shape(0)
    how = u.attr("reduction", "none")
    if how not in ("none", "add"):
        raise ShapeError(f"reduction must be none or add for computed indices, but got {how}")
    amount = math.prod(u.b.shape(positions))
    if math.prod(u.shape(2)) != amount * width:
        raise ShapeError(f"updates must fit the indices, {u.shape(1)}, but got {u.shape(2)}")
    at = u.b.reshape(positions, (amount, 1))
    size = u.b.constant((count, width))
    new = u.b.reshape(u.input(2), (amount, width))
    moved = u.b.add("SCATTER_ND", (at, new, size), u.dtype(0))
    moved = u.b.reshape(moved, shape)
    if how == "add":
        return u.b.add("ADD", (u.input(0), moved))
    ones = u.b.constant(np.ones((amount, width)), u.dtype(0))
    hits = u.b.reshape(u.b.add("SCATTER_ND", (at, ones, size), u.dtype(0)), shape)
    hit = u.b.add("GREATER", (hits, number(u, hits, 0)))
    return u.b.add("SELECT_V2", (hit, moved, u.input(0)))


def scatter_elements(u: Use) -> int:
    axis = u.axis(int(u.attr("axis", 0)), u.rank(0))
    if u.shape(1) != u.shape(2):
        raise ShapeError(f"updates must be like the indices, {u.shape(1)}, but got {u.shape(2)}")
    return replaced(u, element_positions(u, axis), 1)


def scatter_nd(u: Use) -> int:
    if not u.shape(1):
        raise ShapeError("indices must have axes, but got none")
    positions, width = tuple_positions(u, 0)
    return replaced(u, positions, width)


def top_k(u: Use) -> list[int]:
    """Largest or smallest values along an axis, in order, and their positions."""
    rank = u.rank(0)
    axis = u.axis(int(u.attr("axis", -1)), rank)
    count = int(u.attr("k", 0)) if u.opset < 10 else u.number(1, "k")
    if u.dtype(0).kind != "f":
        raise ShapeError(f"x must be floats, but got {u.dtype(0)}")
    if not 0 < count <= u.shape(0)[axis]:
        raise ShapeError(f"k must be 1 to {u.shape(0)[axis]}, the entries of x, but got {count}")
    order = [*(k for k in range(rank) if k != axis), axis]
    x = u.b.transpose(u.input(0), order)
    is_largest = bool(u.attr("largest", 1))
    x = x if is_largest else u.b.add("NEG", (x,))
    spec = u.b.spec(x)
    values, places = u.b.add_several("TOPK_V2", (x, u.b.constant(count)), 2, (spec.dtype, INT32))
    values = values if is_largest else u.b.add("NEG", (values,))
    back = inverse(order)
    places = u.b.add("CAST", (places,), INT64)
    return [u.b.transpose(values, back), u.b.transpose(places, back)]


def one_hot(u: Use) -> int:
    """Indices may count from the end; what is outside has no hit."""
    depth = u.number(1, "depth")
    axis = u.axis(int(u.attr("axis", -1)), u.rank(0) + 1)
    indices, values = u.input(0), u.input(2)
    if u.dtype(0) != INT64 and u.dtype(0) != INT32:
        indices = u.b.add("CAST", (indices,), INT32)
    indices = wrapped(u, indices, depth)
    if u.shape(2) != (2,) or depth < 1:
        raise ShapeError(f"values must be two and depth above 0, but got {u.shape(2)}, {depth}")
    off, on = (_item(u, values, k) for k in range(2))
    size = u.b.constant(depth)
    return u.b.add("ONE_HOT", (indices, size, on, off), u.dtype(2), axis=axis)


def _item(u: Use, x: int, k: int) -> int:
    """Returns item k of a vector as a scalar."""
    return u.b.reshape(u.b.slice(x, [k], [k + 1]), ())


def compress(u: Use) -> int:
    """Selects the entries of an axis, or of the flat tensor, whose condition holds."""
    flags = np.ravel(u.value(1, "the condition")).astype(bool)
    x = u.input(0)
    if "axis" not in u.source.attributes:
        x = u.b.reshape(x, (math.prod(u.shape(0)),))
    axis = u.axis(int(u.attr("axis", 0)), len(u.b.shape(x)))
    places = np.flatnonzero(flags)
    if not places.size or places[-1] >= u.b.shape(x)[axis]:
        raise ShapeError(f"the condition must select entries of {u.shape(0)}, but got {places[:8]}")
    return u.b.add("GATHER", (x, u.b.constant(places)), axis=axis)


def non_zero(u: Use) -> int:
    x = u.value(0, "x")
    if not x.ndim:
        raise ShapeError("x must have axes, but got one number")
    return u.b.constant(np.stack(np.nonzero(x)), INT64)


KINDS: Mapping[str, Callable[[Use], int | Sequence[int]]] = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TopK": top_k,
    "OneHot": one_hot,
    "Compress": compress,
    "NonZero": non_zero,
}
