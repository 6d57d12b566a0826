"""Sums the gradients of micro-batches: one array per parameter, shared by all workers."""

from collections.abc import Callable, Mapping
from threading import Condition

import numpy as np

from odt.kernels.opdef import Array


class Totals:
    """Sums of gradients in a fixed order, so that equal runs give equal bits.

    Workers take turns: the first micro-batch of each worker in the order of the workers, then the
    second of each, and so on. All workers run the same calls at about the same time, so they rarely
    wait.

    Attributes:
        arrays: tensor index → sum; complete when all workers have run.
    """

    def __init__(self, arrays: Mapping[int, Array], workers: int) -> None:
        self.arrays = arrays
        self._workers = workers
        self._turns = dict.fromkeys(arrays, 0)
        self._changed = Condition()
        self._waiting = 0
        self._failed = False
        self._keep = False

    def start(self, workers: int, keep: bool = False) -> None:
        """Begins a batch.

        Args:
            workers: number of workers that add gradients.
            keep: whether to add to the sums of earlier batches instead of new sums.
        """
        self._workers = workers
        self._keep = keep
        self._failed = False
        for i in self._turns:
            self._turns[i] = 0

    def add(self, i: int, gradient: Array, round: int, worker: int) -> None:
        """Adds the gradient of a worker's micro-batch number `round`; waits for its turn."""
        turn = round * self._workers + worker
        if self._turns[i] != turn and not self._wait(i, turn):
            return
        total = self.arrays[i]
        if turn or self._keep:
            np.add(total, gradient, out=total)
        else:
            np.copyto(total, gradient)
        self._turns[i] = turn + 1
        if self._waiting:
            with self._changed:
                self._changed.notify_all()

    def guarded(self, run: Callable[[], None]) -> Callable[[], None]:
        """Wraps a task so that its failure wakes the workers that wait for it."""

        def task() -> None:
            try:
                run()
            except BaseException:
                with self._changed:
                    self._failed = True
                    self._changed.notify_all()
                raise

        return task

    def _wait(self, i: int, turn: int) -> bool:
        """Waits for a turn; returns False if another worker has failed instead."""
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: self._failed or self._turns[i] == turn)
            self._waiting -= 1
        return not self._failed
