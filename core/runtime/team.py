"""Worker threads that run the micro-batches of a step in parallel."""

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextvars import Context, ContextVar
from functools import cache
from typing import Any, ClassVar

import numpy as np

from odt.core.planning.schedule import available_cores
from odt.core.runtime.blas_threads import BLAS
from odt.core.storage.closing import Closing
from odt.errors import TrainingError
from odt.kernels.native.library import run_flushed, set_threads

Task = Callable[[], object]
# Elements of NumPy's buffers for casting and gathering. Half the default saves memory for each
# worker and is equally fast.
UFUNC_BUFFER = 4096


@cache
def numpy_settings() -> list[tuple[ContextVar[Any], Any]]:
    """Returns the context variables that hold NumPy's settings, with their values for tasks."""
    context = Context()
    context.run(np.seterr, all="ignore")  # values that are not finite are detected in the loss
    context.run(np.setbufsize, UFUNC_BUFFER)
    return list(context.items())


def run_settled(task: Task) -> None:
    """Runs a task with `numpy_settings`, and with subnormal numbers as zero."""
    before = [(variable, variable.set(value)) for variable, value in numpy_settings()]
    try:
        run_flushed(task)
    finally:
        for variable, token in before:
            variable.reset(token)


class Team(Closing):
    """Runs one task on each worker; the first worker is the calling thread.

    Subnormal numbers are zero in tasks, and NumPy ignores what is not finite. The compiled calls of
    a single worker are split over the cores.
    """

    _cores_in_use: ClassVar[int] = 1  # of each compiled call, for the whole process

    def __init__(self, workers: int, blas_threads: int) -> None:
        """Starts a thread for each worker but the first."""
        self._blas_threads = blas_threads
        self._limits_blas = False
        self._cores = available_cores() if workers == 1 else 1
        self._use_cores(self._cores)
        self._process = os.getpid()
        self._closed = False
        self._running = threading.Lock()
        self._helpers = [_Helper() for _ in range(workers - 1)]
        weakref.finalize(self, _end, self._helpers, self._process, id(self)).atexit = False

    def limit_blas(self) -> None:
        """Makes BLAS use `blas_threads` threads until `close`: one if there are several workers.

        For tasks with NumPy calls; those of compiled calls alone never reach BLAS.
        """
        if not self._closed:
            self._limits_blas = True
            BLAS.use(id(self), self._blas_threads)

    def run(self, tasks: Sequence[Task]) -> None:
        """Runs the tasks in parallel and waits for all; raises the first task's exception.

        Raises:
            TrainingError: after `close`, or in a fork of the process that made the team: neither
                has threads; or if another thread of the process runs tasks of the team.
        """
        if self._closed:
            raise TrainingError("workers: must not have been closed, but were. Make a new trainer.")
        if os.getpid() != self._process:
            raise TrainingError(
                f"workers: must run in the process that made them, {self._process}, but got "
                f"{os.getpid()}, a fork of it. Make a trainer in the new process."
            )
        if not self._running.acquire(blocking=False):
            raise TrainingError(
                "workers: must be used by one thread at a time, but another thread is computing. "
                "Make a trainer for each thread."
            )
        if Team._cores_in_use != self._cores:  # another team has set its own number
            self._use_cores(self._cores)
        if self._limits_blas:
            BLAS.use(id(self), self._blas_threads)
        try:
            if len(tasks) == 1:
                run_settled(tasks[0])
            else:
                self._run(tasks)
        finally:
            self._running.release()

    @staticmethod
    def _use_cores(count: int) -> None:
        """Sets the number of cores that a compiled call is split over."""
        Team._cores_in_use = count
        set_threads(count)

    def _run(self, tasks: Sequence[Task]) -> None:
        """Runs the first task here and the others on helpers; waits for all, also after errors."""
        first, *others = tasks
        helpers = self._helpers[: len(others)]
        for helper, task in zip(helpers, others, strict=True):
            helper.wait()  # for the task before, if a second interrupt left it running
            helper.start(task)
        error: BaseException | None = None
        try:
            run_settled(first)
        except BaseException as e:
            error = e
        for helper in helpers:
            try:
                raised = helper.wait()
            except BaseException as e:  # an interrupt, such as Ctrl-C
                raised = helper.wait() or e
            error = raised if error is None else error
        if error is not None:
            raise error

    def close(self) -> None:
        """Ends the threads. They also end when the team is garbage-collected."""
        self._closed = True
        threads = [helper.thread for helper in self._helpers]
        _end(self._helpers, self._process, id(self))
        for thread in threads:
            thread.join()
        self._use_cores(1)


def _end(helpers: list["_Helper"], process: int, team: int) -> None:
    """Ends the threads of a team without waiting, as one may run this function; not in a fork."""
    if os.getpid() == process:
        for helper in helpers:
            helper.start(None)
        BLAS.release(team)
    helpers.clear()


class _Helper:
    """A thread that runs tasks one after the other.

    Attributes:
        thread: the thread.
    """

    def __init__(self) -> None:
        self._wake = threading.Semaphore(0)
        self._done = threading.Semaphore(0)
        self._is_busy = False
        self._task: Task | None = None
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def start(self, task: Task | None) -> None:
        """Begins a task; None ends the thread."""
        self._task = task
        self._error = None
        self._is_busy = task is not None
        self._wake.release()

    def wait(self) -> BaseException | None:
        """Waits for the task, if there is one; returns the exception it raised, or None.

        If an interrupt ends the waiting, `_done` stays released for the next task.
        """
        while self._is_busy:
            self._done.acquire()
        self._done.acquire(blocking=False)  # if the task had ended before
        error, self._error = self._error, None  # its frames would keep the team alive
        return error

    def _loop(self) -> None:
        """Runs tasks until one is None."""
        while True:
            self._wake.acquire()
            if self._task is None:
                return
            try:
                run_settled(self._task)
            except BaseException as e:  # passed to the waiting thread
                self._error = e
            self._task = None
            self._is_busy = False
            self._done.release()
