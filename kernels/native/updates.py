"""Compiled calls of a step beside those of operators.

They sum and clip gradients, update parameters, averages and running statistics, draw masks of
dropout, round weights or keep them as integers, and let workers meet.
"""

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from odt.kernels.geometry.quantize import Limits, Quantization, sign_bit
from odt.kernels.geometry.weight_quantization import WeightQuantization
from odt.kernels.native.binding import Calls, bind, structs, table_of
from odt.kernels.native.float32 import FLOAT
from odt.kernels.native.library import is_available, load
from odt.kernels.rows.opdef import Array
from odt.kernels.rows.updatedef import Rows

NEVER = np.zeros(1, np.int64)  # `adds` of calls that never add
SQUARE_SUMS = 8  # sums of squares side by side, as in src/updates_body.h
# Kernels of optimizers, as they are numbered in src/updates.c.
RULES = "sgd", "momentum", "adam", "root_scaled", "root_scaled_momentum", "lion"
SEED, STEP, SAMPLE = range(3)  # values of the origin of random numbers


def fits_compiled(*arrays: Array) -> bool:
    """Whether compiled calls can sum, round and update these arrays: all must be float32."""
    return is_available() and all(a.dtype == FLOAT for a in arrays)


def bind_accumulate(total: Array, gradient: Array, adds: Array) -> Calls:
    """Returns a compiled call of total += gradient if adds[0], else total = gradient.

    Args:
        total, gradient: arrays of the same size.
        adds: one int64, read in each call.
    """
    return bind("accumulate", total, gradient, total.size, adds)


def bind_copy(to: Array, values: Array) -> Calls:
    """Returns a compiled call that copies an array: both have the same bytes, a multiple of 4."""
    assert to.nbytes == values.nbytes, "a copy has the size of its source"
    return bind("accumulate", to, values, to.nbytes // 4, NEVER)


def bind_update(name: str, p: Array, g: Array, *slots: Array, numbers: Any) -> Calls:
    """Returns a compiled update of p and its slots.

    Args:
        name: name of the kernel, whose arguments are p, g, the slots, their size and the numbers.
        p: parameter.
        g: its gradient.
        slots: arrays like p.
        numbers: float32, an array of NumPy or ctypes, read in each call.
    """
    return bind(name, p, g, *slots, p.size, numbers)


class RowSums(NamedTuple):
    """Sums of gradients of rows of a table; those without a row are 0.

    Attributes:
        sums: (capacity, …) the sums.
        rows: (1 + capacity,) int64, the number of rows that have a sum, and these rows in the order
            of the sums.
        places: (V,) int32, the place of the sum of each row of the table, counted from 1, or 0.
    """

    sums: Array
    rows: Array
    places: Array

    @property
    def listed(self) -> Array:
        """The rows that have a sum, in the order of the sums."""
        return self.rows[1 : 1 + self.rows.item(0)]


def bind_add_rows(total: RowSums, at: Array, gradients: Array, adds: Array) -> Calls:
    """Returns a compiled call that adds gradients of rows to their sums.

    Args:
        total: the sums.
        at: (n,) int64, the row of each gradient.
        gradients: (n, …) float32.
        adds: one int64, read in each call: whether sums of earlier calls stay.
    """
    return bind("add_rows", *total, gradients, at, at.size, gradients.size // at.size, adds)


def bind_merge_rows(total: RowSums, other: RowSums) -> Calls:
    """Returns a compiled call that adds the sums of another worker."""
    width = total.sums.size // len(total.sums)
    return bind("merge_rows", *total, other.sums, other.rows, width)


def bind_update_rows(
    name: str,
    p: Array,
    *slots: Array,
    numbers: Any,
    gradient: RowSums,
    which: Rows,
    part: int,
    parts: int,
) -> Calls:
    """Returns a compiled update of a part of a table by the sums of its rows' gradients.

    Args:
        name: name of the optimizer's kernel.
        p: (V, …) table.
        slots: arrays like p.
        numbers: as for `bind_update`.
        gradient: sums of the gradients of its rows.
        which: rows that the update changes.
        part, parts: number of the part, and how many there are.
    """
    a, b = (*slots, None, None)[:2]  # the kernel has two slots, of which a rule may use fewer
    sizes = len(p), p.size // len(p), which.value, part, parts
    return bind("update_rows", p, a, b, numbers, RULES.index(name), *gradient, *sizes)


def bind_move_average(average: Array, weights: Array, numbers: Any) -> Calls:
    """Returns a compiled call of e ← e + share · (w − e); each call reads share from numbers."""
    return bind("move_average", average, weights, average.size, numbers)


def bind_sum_squares(a: Array, total: Array) -> Calls:
    """Returns a compiled call that computes the sum of squares in double precision.

    Args:
        a: the values, float32.
        total: (1,) float64.
    """
    return bind("sum_squares", a, a.size, total)


def bind_clip_factor(squares: Array, norm: float, factor: Array) -> Calls:
    """Returns a compiled call of factor = norm / √Σ squares if this is below 1, else 1.

    Args:
        squares: float64.
        norm: the largest norm.
        factor: (1,) float64.
    """
    return bind("clip_factor", squares, squares.size, np.array([norm], np.float64), factor)


def bind_scale_by(a: Array, factor: Array) -> Calls:
    """Returns a compiled call of a = a · factor[0], a float64 that is read in each call."""
    return bind("scale_by", a, a.size, factor)


def bind_move_statistics(
    mean: Array, variance: Array, center: Array, inv: Array, momentum: float, epsilon: float
) -> Calls:
    """Returns a compiled call that moves running statistics towards those of a batch.

    Args:
        mean, variance: running statistics of C channels.
        center, inv: mean of the batch, and 1 / √(variance + ε) of it, C values each.
        momentum: factor of the running statistics; those of the batch have the rest.
        epsilon: ε.
    """
    numbers = momentum, 1 - momentum, epsilon
    return bind("move_statistics", mean, variance, center, inv, mean.size, *numbers)


def make_origin() -> Array:
    """Allocates an origin, from which random numbers follow: seed, step and first sample."""
    return np.zeros(3, np.uint64)


def bind_dropout_mask(
    mask: Array, n: int, weight: int, use: int, rate: float, origin: Array
) -> Calls:
    """Returns a compiled call that draws a mask of dropout.

    Args:
        mask: float32, whole samples.
        n: values of a sample.
        weight: number of the layer's weights.
        use: how many layers before this one have the same weights.
        rate: probability of a zero.
        origin: as from `make_origin`, read in each call.
    """
    return bind("dropout_mask", mask, mask.size, n, weight, use, 1 - rate, origin)


def bind_round_units(w: Array, out: Array, quantization: WeightQuantization) -> Calls:
    """Returns a compiled call of `quantization.fake_quantize`."""
    first, (lo, hi) = quantization.first, quantization.limits
    scales, zeros = (np.ascontiguousarray(a, np.float32) for a in (first.scale, first.zero_point))
    zero_points = None if quantization.is_symmetric else zeros
    sizes = first.units_of(w.shape)
    form = *sizes, float(lo), float(hi), int(quantization.is_fixed)
    return bind("round_units", w, out, scales, zero_points, *form)


def bind_update_integers(
    name: str,
    q: Array,
    g: Array,
    *slots: Array,
    numbers: Any,
    units: Quantization,
    limits: Limits,
    inner: int,
    first: int,
    weight: int,
    origin: Array,
) -> Calls:
    """Returns a compiled update of a weight that is integers, which are rounded at random.

    Args:
        name: name of the optimizer's kernel.
        q: the integers, or some successive ones.
        g: their gradient.
        slots: state of the optimizer, like g.
        numbers: as for `bind_update`.
        units: scale and zero point of each unit of the weight.
        limits: the smallest and the largest integer.
        inner: values of a unit that are side by side.
        first: number of the first one of q in the weight.
        weight: number of the weight.
        origin: seed and step, as from `make_origin`, read in each call.
    """
    scales, zeros = (np.ascontiguousarray(a, np.float32) for a in (units.scale, units.zero_point))
    a, b = (*slots, None, None)[:2]  # the kernel has two slots, of which a rule may use fewer
    operands = q, g, a, b, numbers, RULES.index(name), first, q.size, scales, zeros
    flip = sign_bit(q.dtype)
    lo, hi = limits
    form = scales.size, inner, flip, float(lo), float(hi)
    return bind("update_integers", *operands, *form, weight, origin)


def bind_meet(state: Array, workers: int, calls: Sequence[Calls]) -> Calls:
    """Returns a compiled call that runs other calls when all workers have reached it.

    It returns when those of all workers have ended.

    Args:
        state: (3,) int64 that the workers share: how many have arrived, meetings so far, and
            whether a worker has left: then those that wait return, and their calls do not run.
        workers: number of workers.
        calls: calls of this worker.
    """
    members = [c for run in calls for c in run.calls]
    return bind("meet", state, workers, table_of(members), len(members))


def bind_side_by_side(lists: Sequence[Calls]) -> Calls:
    """Returns a compiled call that runs lists of calls at the same time, each on a core."""
    return bind("side_by_side", structs([calls.listed for calls in lists], lists), len(lists))


def leave_meetings(state: Array) -> None:
    """Ends the meetings of workers, so that none waits for the calling one; see `bind_meet`."""
    library = load()
    assert library is not None, "meetings are compiled calls"
    library.leave_others(ctypes.c_void_p(state.ctypes.data))
