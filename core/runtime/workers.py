"""Threads that run a step's micro-batches side by side."""

import os
import threading
import weakref
from collections.abc import Callable, Sequence

from threadpoolctl import threadpool_limits

from odt.core.planning.schedule import available_cores
from odt.core.storage.closing import Closing
from odt.errors import TrainingError
from odt.kernels.native.library import set_threads

Task = Callable[[], None]


class Team(Closing):
    """Runs one task on each of its workers; the first runs on the calling thread.

    BLAS computes with `blas_threads` threads from the start until `close`: one where the workers
    are the parallelism. A single worker's compiled calls are shared among the cores.
    """

    def __init__(self, workers: int, blas_threads: int) -> None:
        self._limits = threadpool_limits(limits=blas_threads, user_api="blas")
        set_threads(available_cores() if workers == 1 else 1)
        self._process = os.getpid()
        self._helpers = [_Helper() for _ in range(workers - 1)]
        weakref.finalize(self, _end, self._helpers, self._process).atexit = False

    def run(self, tasks: Sequence[Task]) -> None:
        """Runs the tasks at the same time and waits for all; raises the first one's exception.

        Raises:
            TrainingError: in a process that was forked from the team's, without its threads.
        """
        if os.getpid() != self._process:
            raise TrainingError(
                f"workers: must run in the process that made them, {self._process}, but got "
                f"{os.getpid()}, a fork of it. Make a trainer in the new process."
            )
        for helper, task in zip(self._helpers, tasks[1:], strict=False):
            helper.start(task)
        error: BaseException | None = None
        try:
            tasks[0]()
        except BaseException as e:
            error = e
        for helper, _ in zip(self._helpers, tasks[1:], strict=False):
            error = helper.wait() if error is None else (helper.wait(), error)[1]
        if error is not None:
            raise error

    def close(self) -> None:
        """Ends the threads; those of a team that is dropped without it end, too."""
        threads = [helper.thread for helper in self._helpers]
        _end(self._helpers, self._process)
        for thread in threads:
            thread.join()
        set_threads(1)
        self._limits.restore_original_limits()


def _end(helpers: list["_Helper"], process: int) -> None:
    """Ends their threads, without waiting: one of them may run this. A fork has none of them."""
    if os.getpid() == process:
        for helper in helpers:
            helper.start(None)
    helpers.clear()


class _Helper:
    """A thread that waits for tasks.

    Attributes:
        thread: that runs them.
    """

    def __init__(self) -> None:
        self._wake = threading.Semaphore(0)
        self._done = threading.Semaphore(0)
        self._task: Task | None = None
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def start(self, task: Task | None) -> None:
        self._task, self._error = task, None
        self._wake.release()

    def wait(self) -> BaseException | None:
        """What the task raised, once it has ended."""
        self._done.acquire()
        error, self._error = self._error, None  # whose frames hold on to the team
        return error

    def _loop(self) -> None:
        while True:
            self._wake.acquire()
            if self._task is None:
                return
            try:
                self._task()
            except BaseException as e:  # handed to the thread that waits
                self._error = e
            self._task = None
            self._done.release()
