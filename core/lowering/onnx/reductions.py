"""Reductions along axes, and the positions of extreme values."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from odt.core.lowering.onnx.arithmetic import number
from odt.core.lowering.onnx.builder import INT64, Use
from odt.core.lowering.onnx.shapes import axes_of

REDUCTIONS = {
    "ReduceMean": "MEAN",
    "ReduceSum": "SUM",
    "ReduceMax": "REDUCE_MAX",
    "ReduceMin": "REDUCE_MIN",
    "ReduceProd": "REDUCE_PROD",
}


def _axes(u: Use) -> tuple[int, ...] | None:
    """Returns the axes along which a node reduces input 0; None if it leaves values as they are."""
    axes, rank = axes_of(u), u.rank(0)
    if not axes and u.attr("noop_with_empty_axes", 0):
        return None
    return tuple(sorted({u.axis(k, rank) for k in axes or range(rank)}))


def reduced(u: Use, op: str, x: int) -> int:
    """Reduces a tensor in the shape of input 0 along the node's axes."""
    axes = _axes(u)
    if axes is None:
        return x
    keep = bool(u.attr("keepdims", 1))
    return u.b.add(op, (x, u.b.constant(axes)), keep_dims=keep)


def reduce(op: str, u: Use) -> int:
    return reduced(u, op, u.input(0))


def of_squares(u: Use) -> int:
    return reduced(u, "SUM", u.b.add("SQUARE", (u.input(0),)))


def l1(u: Use) -> int:
    return reduced(u, "SUM", u.b.add("ABS", (u.input(0),)))


def l2(u: Use) -> int:
    return u.b.add("SQRT", (of_squares(u),))


def log_sum(u: Use) -> int:
    return u.b.add("LOG", (reduced(u, "SUM", u.input(0)),))


def log_sum_exp(u: Use) -> int:
    """log Σ exp(x − m) + m, where m is the largest value of each sum."""
    x, axes = u.input(0), _axes(u)
    if axes is None:
        return x
    largest = u.b.add("REDUCE_MAX", (x, u.b.constant(axes)), keep_dims=True)
    powers = u.b.add("EXP", (u.b.add("SUB", (x, largest)),))
    total = u.b.add("LOG", (u.b.add("SUM", (powers, u.b.constant(axes)), keep_dims=True),))
    y = u.b.add("ADD", (total, largest))
    shape = [n for k, n in enumerate(u.b.shape(x)) if k not in axes]
    return y if u.attr("keepdims", 1) else u.b.reshape(y, shape)


def arg(op: str, u: Use) -> int:
    axis = u.axis(int(u.attr("axis", 0)), u.rank(0))
    if u.attr("select_last_index", 0):
        x = u.b.add("REVERSE_V2", (u.input(0), u.b.constant([axis])))
        y = u.b.add(op, (x, u.b.constant(axis)), INT64)
        y = u.b.add("SUB", (number(u, y, u.shape(0)[axis] - 1), y))
    else:
        y = u.b.add(op, (u.input(0), u.b.constant(axis)), INT64)
    dims = list(u.shape(0))
    dims[axis] = 1
    return u.b.reshape(y, dims) if u.attr("keepdims", 1) else y


KINDS: Mapping[str, Callable[[Use], int | Sequence[int]]] = {
    **{kind: partial(reduce, op) for kind, op in REDUCTIONS.items()},
    "ReduceSumSquare": of_squares,
    "ReduceL1": l1,
    "ReduceL2": l2,
    "ReduceLogSum": log_sum,
    "ReduceLogSumExp": log_sum_exp,
    "ArgMax": partial(arg, "ARG_MAX"),
    "ArgMin": partial(arg, "ARG_MIN"),
}
