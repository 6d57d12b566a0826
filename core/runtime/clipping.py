"""Gradient clipping by the global norm or by value."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.native.binding import Run
from odt.kernels.native.elementwise import call
from odt.kernels.native.updates import (
    SQUARE_SUMS,
    bind_clip_factor,
    bind_scale_by,
    bind_sum_squares,
    fits_compiled,
)
from odt.kernels.rows.opdef import TILE, Array


@dataclass(frozen=True, slots=True)
class Clipping:
    """Limits of the gradients of an update; 0 for none.

    Attributes:
        norm: largest norm of all gradients together: larger gradients are scaled by norm / ‖g‖, as
            tf.clip_by_global_norm and torch.nn.utils.clip_grad_norm_ do (Pascanu et al. 2013).
        value: largest magnitude of each value.
    """

    norm: float = 0.0
    value: float = 0.0

    def memory(self, gradients: int) -> Array:
        """Allocates the memory of `bind` for a number of gradients."""
        return np.zeros(gradients + 1 if self.norm else 0)

    def bind(self, gradients: Sequence[Array], memory: Array) -> list[Run]:
        """Returns the calls that clip gradients in place.

        Args:
            gradients: all gradients, in the order in which their squares are added.
            memory: float64 (gradients + 1,): the sum of the squares of each, and the factor of all.
        """
        runs = [_bind_limit(g, self.value) for g in gradients if self.value]
        if self.norm:
            squares, factor = memory[:-1], memory[-1:]
            each = enumerate(gradients)
            runs += [_bind_sum_squares(g, squares[k : k + 1]) for k, g in each]
            runs.append(_bind_factor(squares, self.norm, factor))
            runs += [_bind_scale(g, factor) for g in gradients]
        return runs


def _bind_limit(g: Array, most: float) -> Run:
    limit = min(most, float(np.finfo(g.dtype).max))  # a cast would warn
    if fits_compiled(g):
        return call("clamp", g, (g,), -limit, limit)
    return partial(np.clip, g, -limit, limit, out=g)


def _bind_sum_squares(g: Array, total: Array) -> Run:
    if fits_compiled(g):
        return bind_sum_squares(g, total)
    rows = np.zeros((TILE // SQUARE_SUMS + 1, SQUARE_SUMS))
    return partial(_sum_squares, g.reshape(-1, copy=False), total, rows)


def _sum_squares(g: Array, total: Array, rows: Array) -> None:
    """Computes Σ g² in the order of the compiled kernel: value i adds to sum i mod SQUARE_SUMS."""
    sums, squares = rows[0], rows[1:].reshape(-1)
    sums.fill(0)
    for at in range(0, g.size, TILE):
        tile = g[at : at + TILE]
        np.multiply(tile, tile, out=squares[: tile.size], dtype=squares.dtype)
        squares[tile.size :] = 0
        np.add.reduce(rows, axis=0, out=sums)
    total[0] = np.add.accumulate(sums)[-1]


def _bind_factor(squares: Array, norm: float, factor: Array) -> Run:
    if fits_compiled():
        return bind_clip_factor(squares, norm, factor)

    def compute() -> None:
        length = math.sqrt(np.add.accumulate(squares)[-1])  # in order
        factor[0] = norm / length if length > norm else 1

    return compute


def _bind_scale(g: Array, factor: Array) -> Run:
    if fits_compiled(g):
        return bind_scale_by(g, factor)

    def scale() -> None:
        if factor[0] != 1:
            np.multiply(g, factor.item(), out=g)

    return scale
