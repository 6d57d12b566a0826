"""A moving average of the weights."""

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import numpy as np

from odt.core.runtime.arena import copy_arrays
from odt.kernels.native.binding import Run
from odt.kernels.native.updates import bind_move_average, fits_compiled
from odt.kernels.rows.opdef import TILE, Array
from odt.kernels.rows.term import chosen


class MovingAverage:
    """e ← e + (1 − d) (w − e) in step t, with d = min(decay, (t − 1) / (t + 19)).

    Attributes:
        arrays: tensor index → average; empty for none.
        numbers: what compiled calls read in each step: 1 − d.
    """

    def __init__(self, weights: Mapping[int, Array], decay: float) -> None:
        """Begins with the weights; a decay of 0 is no average."""
        self._weights, self._decay = weights, decay
        self.arrays = copy_arrays(weights) if decay else {}
        self.numbers = (ctypes.c_float * 1)()  # 1 − d, which compiled calls read

    def begin_step(self, step: int) -> None:
        """Sets how far the averages move in a step; the first one is step 1."""
        self.numbers[0] = self.share(step)

    def share(self, step: int) -> float:
        """Returns 1 − d of a step; as a term if the number of the step is one."""
        last, first = 1 - self._decay, 20 / (step + 19)
        return chosen(first < last, last, first)

    def bind(self, i: int, work: Array) -> Run:
        """Returns the call that moves an average to the weights, after `begin_step`."""
        w, e = (a[i].reshape(-1, copy=False) for a in (self._weights, self.arrays))
        if fits_compiled(w):
            return bind_move_average(e, w, self.numbers)
        return partial(self._move, w, e, work)

    def _move(self, weights: Array, average: Array, work: Array) -> None:
        for at in range(0, weights.size, TILE):
            w, e = weights[at : at + TILE], average[at : at + TILE]
            change = work[: w.size]
            np.subtract(w, e, out=change)
            np.multiply(change, self.numbers[0], out=change)
            np.add(e, change, out=e)

    def reset(self) -> None:
        """Sets the averages to the current weights."""
        for i, a in self.arrays.items():
            np.copyto(a, self._weights[i])

    @contextmanager
    def exchanged(self) -> Iterator[None]:
        """Exchanges the weights with the averages, if any, during a `with` block."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def _exchange(self) -> None:
        for i, average in self.arrays.items():
            a, b = (x.reshape(-1, copy=False) for x in (self._weights[i], average))
            for at in range(0, a.size, TILE):
                here = slice(at, at + TILE)
                saved = a[here].copy()
                np.copyto(a[here], b[here])
                np.copyto(b[here], saved)
