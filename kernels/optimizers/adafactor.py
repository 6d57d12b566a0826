"""Adafactor: the second moment of a matrix is stored as row and column means.

s = t^−γ                              t = 1 on the first step, decay_exponent γ
r ← r + s (meanⱼ g²ᵢⱼ − r)            c ← c + s (meanᵢ g²ᵢⱼ − c)
v = r cᵀ / mean(r)                    for a vector: v ← v + s (g² − v)
u = g / √max(v, ε²)
p ← p − lr λ p                        decoupled weight decay λ
p ← p − α u / max(1, rms(u) / d)      α = max(ε₂, rms(p)) min(lr, 1 / √t), clip_threshold d

rms(p) is computed before the decay. A tensor of more than two dimensions is a matrix whose columns
are its last axis: the state of an (O, KH, KW, I) filter is O·KH·KW + I values.

Source: Shazeer and Stern 2018, as in torch.optim.Adafactor, with its defaults;
ε = 2⁻²³, ε₂ = 0.001.
"""

from collections.abc import Iterator
from math import sqrt

import numpy as np

from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.kernels.rows.opdef import TILE, Array, Specs, TensorSpec
from odt.kernels.rows.updatedef import DECOUPLED_WEIGHT_DECAY, HyperParameter, UpdateRule

EPSILON = 2.0**-23
LEAST_RMS = 1e-3

Block = tuple[slice, slice]


@dataclass(frozen=True, slots=True)
class AdafactorAttrs:
    decay_exponent: float = 0.8
    clip_threshold: float = 1.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if not self.clip_threshold:
            raise OptionError("clip_threshold", "must be above 0", 0)


def slots(attrs: AdafactorAttrs) -> tuple[str, ...]:
    return ("rows", "columns", "v")


def slot_specs(attrs: AdafactorAttrs, p: TensorSpec) -> Specs:
    if len(p.shape) < 2 or not p.size:
        return {"v": p}
    columns = p.shape[-1]
    sizes = {"rows": p.size // columns, "columns": columns}
    return {name: TensorSpec((size,), p.dtype) for name, size in sizes.items()}


def blocks(shape: tuple[int, ...]) -> Iterator[Block]:
    """Yields slices of the rows and columns of a matrix, each of at most TILE elements."""
    height, width = shape
    step = max(TILE // width, 1)
    for row in range(0, height, step):
        for column in range(0, width, TILE):
            yield slice(row, min(row + step, height)), slice(column, min(column + TILE, width))


def scratch(work: Array, a: Array) -> Array:
    """Returns scratch memory in the shape of an array."""
    return work[: a.size].reshape(a.shape)


def sum_of_squares(a: Array) -> float:
    flat = a.reshape(-1)
    return float(np.vdot(flat, flat))


def run(
    attrs: AdafactorAttrs,
    learning_rate: float,
    step: int,
    *,
    p: Array,
    g: Array,
    work: Array,
    rows: Array | None = None,
    columns: Array | None = None,
    v: Array | None = None,
) -> None:
    if not p.size:
        return
    shape = (1, p.size) if rows is None else (rows.size, p.size // rows.size)
    p, g = p.reshape(shape, copy=False), g.reshape(shape, copy=False)
    rate = step**-attrs.decay_exponent
    if rows is not None and columns is not None:
        average_factors(rows, columns, g, rate, work)
        scale = 1 / max(float(rows.mean()), EPSILON)
    elif v is not None:
        average(v.reshape(shape, copy=False), g, rate, work[0])

    def update(block: Block) -> Array:
        """Computes the update u of a block, in scratch memory."""
        u = scratch(work[0], g[block])
        if rows is not None and columns is not None:
            np.multiply(rows[block[0], None], columns[None, block[1]], out=u)
            np.multiply(u, scale, out=u)
        elif v is not None:
            np.copyto(u, v.reshape(shape, copy=False)[block])
        np.maximum(u, EPSILON**2, out=u)
        np.sqrt(u, out=u)
        np.divide(g[block], u, out=u)
        return u

    rms_p = sqrt(sum(sum_of_squares(scratch_copy(work[0], p[b])) for b in blocks(shape)) / p.size)
    rms_u = sqrt(sum(sum_of_squares(update(block)) for block in blocks(shape)) / p.size)
    alpha = max(LEAST_RMS, rms_p) * min(learning_rate, 1 / sqrt(step))
    alpha /= max(1.0, rms_u / attrs.clip_threshold)
    for block in blocks(shape):
        u = update(block)
        np.multiply(u, alpha, out=u)
        np.multiply(p[block], 1 - learning_rate * attrs.weight_decay, out=p[block])
        np.subtract(p[block], u, out=p[block])


def scratch_copy(work: Array, a: Array) -> Array:
    """Returns a contiguous copy of an array in scratch memory."""
    copy = scratch(work, a)
    np.copyto(copy, a)
    return copy


def average(v: Array, g: Array, rate: float, work: Array) -> None:
    """Computes v ← v + rate (g² − v), block by block."""
    for block in blocks(v.shape):
        squares = scratch(work, g[block])
        np.multiply(g[block], g[block], out=squares)
        np.subtract(squares, v[block], out=squares)
        np.multiply(squares, rate, out=squares)
        np.add(v[block], squares, out=v[block])


def average_factors(rows: Array, columns: Array, g: Array, rate: float, work: Array) -> None:
    """Moves the moments of rows and columns towards those of g², by a rate."""
    np.multiply(rows, 1 - rate, out=rows)
    np.multiply(columns, 1 - rate, out=columns)
    for block in blocks(g.shape):
        squares = scratch(work[0], g[block])
        np.multiply(g[block], g[block], out=squares)
        for means, axis, count in (
            (rows[block[0]], 1, columns.size),
            (columns[block[1]], 0, rows.size),
        ):
            sums = work[1, : means.size]
            np.add.reduce(squares, axis=axis, out=sums)
            np.multiply(sums, rate / count, out=sums)
            np.add(means, sums, out=means)


RULE = UpdateRule(
    "adafactor",
    AdafactorAttrs,
    slots,
    run,
    work=2,
    hyper_parameters=(
        HyperParameter("decay_exponent", "Exponent γ of the second moment's decay rate 1 − t^−γ"),
        HyperParameter("clip_threshold", "Largest root mean square of an update"),
        DECOUPLED_WEIGHT_DECAY,
    ),
    place=6,
    learning_rate=0.01,
    slot_specs=slot_specs,
    whole=True,
)
