"""Where the gradients of micro-batches add up: one array a parameter, for all workers."""

from collections.abc import Callable, Mapping
from threading import Condition

import numpy as np

from odt.kernels.opdef import Array


class Totals:
    """Sums that are always made in the same order, so that a run gives the same bits again.

    Workers take turns: the first micro-batch of each in the order of the workers, then the
    second of each, and so on. As all do the same at about the same time, they hardly wait.

    Attributes:
        arrays: by tensor index; whole when all have run.
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
        """Begins a batch, whose gradients so many workers add.

        Args:
            workers: how many.
            keep: whether they are added to those of the batches before.
        """
        self._workers = workers
        self._keep = keep
        self._failed = False
        for i in self._turns:
            self._turns[i] = 0

    def add(self, i: int, gradient: Array, round: int, worker: int) -> None:
        """Adds a worker's gradient of its micro-batch number `round`, when it is its turn."""
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
        """The same task, which lets nobody wait for it once it has failed."""

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
        """Whether its turn came: not if another worker has failed."""
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: self._failed or self._turns[i] == turn)
            self._waiting -= 1
        return not self._failed
