"""Threads and memory end with their trainer, and a forked process is told that it has none."""

import gc
import os
import signal
import threading
import time
import traceback
import weakref
from contextvars import ContextVar
from pathlib import Path

import numpy as np
import pytest
from support.limits import FOREVER
from support.tied_network import data, info, network
from threadpoolctl import threadpool_info

from odt.core.planning.schedule import on_cores
from odt.core.runtime import team
from odt.core.runtime.team import UFUNC_BUFFER, Team
from odt.core.training.trainer import Trainer
from odt.errors import TrainingError
from odt.kernels.native import elementwise, library


def in_a_fork(check: object) -> int:
    """The exit status of a forked process that calls `check`: 0 if nothing was raised."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        check()  # type: ignore[operator]
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork")
def test_a_fork_is_refused_the_trainer_of_its_parent(workers: int) -> None:
    def check() -> None:
        with pytest.raises(TrainingError, match=f"made them, {parent}, but got {os.getpid()}"):
            trainer.step(data(8), 8)
        trainer.close()
        with Trainer(network(), info(8), workers=workers) as own:
            assert own.step(data(8), 8) == loss

    parent = os.getpid()
    with Trainer(network(), info(8), workers=workers) as trainer:
        loss = trainer.step(data(8), 8)
        assert in_a_fork(check) == 0
        assert trainer.step(data(8), 8) < loss


def test_a_trainer_that_is_dropped_leaves_no_thread() -> None:
    gc.collect()
    before = set(threading.enumerate())
    for _ in range(3):
        trainer = Trainer(network(), info(8), workers=4)
        trainer.step(data(8), 8)
    threads = set(threading.enumerate()) - before
    assert len(threads) >= 3
    del trainer
    gc.collect()
    for thread in threads:
        thread.join(timeout=FOREVER)
    assert set(threading.enumerate()) <= before


def test_a_team_that_failed_and_is_dropped_leaves_no_thread() -> None:
    team = Team(2, 1)
    (thread,) = (helper.thread for helper in team._helpers)

    def fail(held: Team = team) -> None:
        raise TrainingError("as it should")

    with pytest.raises(TrainingError):
        team.run([lambda: None, fail])
    del team, fail
    gc.collect()
    thread.join(timeout=FOREVER)
    assert not thread.is_alive()


@pytest.mark.parametrize("workers", [1, 3])
def test_a_closed_trainer_refuses_to_run(workers: int) -> None:
    """It waited for ever for gradients of threads that had ended."""
    with Trainer(network(), info(8), micro_batch=2, workers=workers) as trainer:
        trainer.step(data(8), 8)
    with pytest.raises(TrainingError, match="must not have been closed"):
        trainer.step(data(8), 8)
    assert trainer.weights()


def test_a_second_thread_is_refused_while_tasks_run() -> None:
    started, finish = threading.Event(), threading.Event()

    def task() -> None:
        started.set()
        finish.wait(FOREVER)

    team = Team(1, 1)
    first = threading.Thread(target=team.run, args=([task],))
    first.start()
    started.wait(FOREVER)
    with pytest.raises(
        TrainingError, match="one thread at a time, but another thread is computing"
    ):
        team.run([lambda: None])
    finish.set()
    first.join()
    team.run([lambda: None])
    team.close()


TINY = np.float32(1e-30)


@pytest.mark.skipif(not library.instruction_sets(), reason="nothing is compiled")
@pytest.mark.parametrize("kernels", ["numpy", ""])
def test_subnormal_numbers_are_zero_in_tasks_only(
    kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result that is one, an operand that is one, and the caller's own arithmetic afterwards."""

    def multiply() -> None:
        results.append((float(TINY * TINY * TINY**-1), float(subnormal * np.float32(1e10))))

    def fail() -> None:
        raise RuntimeError

    monkeypatch.setenv("ODT_KERNELS", kernels)
    subnormal, results = TINY * np.float32(1e-10), list[tuple[float, float]]()
    assert 0 < subnormal < np.finfo(np.float32).tiny
    with Team(2, 1) as team:
        team.run([multiply, multiply])
        assert results == [(0, 0), (0, 0)]
        assert TINY * np.float32(1e-10) == subnormal
        with pytest.raises(RuntimeError):
            team.run([fail])
        assert TINY * np.float32(1e-10) == subnormal


def test_the_settings_of_numpy_are_those_of_the_caller_after_tasks() -> None:
    """Each worker has the same; other context variables are the caller's."""

    def see() -> None:
        seen.append((set(map(str, np.geterr().values())), np.getbufsize()))

    def fail() -> None:
        np.seterr(all="warn")
        assert variable.get() == 3
        raise RuntimeError

    variable, seen = ContextVar[int]("variable"), list[tuple[set[str], int]]()
    with Team(2, 1) as team, np.errstate(all="raise", under="print"):
        before, size = np.geterr(), np.setbufsize(2048)
        variable.set(3)
        for _ in range(2):
            team.run([see, see])
            with pytest.raises(RuntimeError):
                team.run([fail])
            assert np.geterr() == before
            assert np.getbufsize() == 2048
        np.setbufsize(size)
    assert seen == [({"ignore"}, UFUNC_BUFFER)] * 4


def test_training_leaves_the_settings_of_numpy_also_after_errors() -> None:
    samples = data(8)
    with Trainer(network(), info(8)) as trainer, np.errstate(all="raise"):
        trainer.step(samples, 8)
        trainer.evaluate(samples, range(8))
        samples.inputs[0][0] = np.inf
        for run in (trainer.step, lambda *given: trainer.evaluate(given[0], range(8))):
            with pytest.raises(TrainingError, match="must be finite"):
                run(samples, 8)
            assert set(np.geterr().values()) == {"raise"}


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="Windows")
def test_an_interrupt_waits_for_the_workers() -> None:
    """The step after it returned while a worker still computed."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    def work() -> None:
        time.sleep(0.05)  # the first worker waits then
        if not ended:
            signal.pthread_kill(here, signal.SIGUSR1)
        time.sleep(0.05)
        ended.append(threading.get_ident())

    ended: list[int] = []
    here = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with Team(2, 1) as team:
            with pytest.raises(KeyboardInterrupt):
                team.run([str, work])
            assert len(ended) == 1
            for count in (2, 3):
                team.run([str, work])
                assert len(ended) == count
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_other_teams_do_not_change_the_cores_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number is one of the process: an evaluation beside a trainer left it at 1."""
    cores = [0]
    monkeypatch.setattr(team, "set_threads", cores.append)
    seen: list[int] = []
    with on_cores(3), Team(1, 3) as single:
        with Team(2, 1) as several:
            for each in (single, several, single):
                each.run([lambda: seen.append(cores[-1])])
        single.run([lambda: seen.append(cores[-1])])
    assert seen == [3, 1, 3, 3]


def test_each_team_has_its_threads_of_blas_and_restores_them() -> None:
    """A team that ended before a later one left the process with the threads of this one."""

    def threads() -> list[int]:
        return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]

    before, seen = threads(), list[list[int]]()
    several, single = Team(2, 1), Team(1, 2)
    several.limit_blas()
    single.limit_blas()
    several.run([lambda: seen.append(threads())])
    several.close()
    single.run([lambda: seen.append(threads())])
    dropped = Team(1, 1)
    dropped.limit_blas()
    single.close()
    assert seen == [[1] * len(before), [2] * len(before)]
    del dropped
    gc.collect()
    assert threads() == before


@pytest.mark.skipif(not library.is_available(), reason="no compiled kernels")
def test_shared_calls_compute_in_the_float_mode_of_the_caller() -> None:
    """Every thread of one call treats subnormal numbers alike."""
    x = np.full((2000, 500), 1e-20, np.float32)
    y = np.empty_like(x)
    call = elementwise.call("multiply", y, [x, x])
    library.set_threads(3)
    try:
        for _ in range(3):
            call()
            assert (y > 0).all()
            library.run_flushed(call)
            assert not y.any()
    finally:
        library.set_threads(1)


def run_time_of_others() -> int:
    """Nanoseconds that the other threads of the process have run on a core."""
    tasks = Path("/proc/self/task").iterdir()
    others = [t for t in tasks if int(t.name) != threading.get_native_id()]
    return sum(int((t / "schedstat").read_text().split()[0]) for t in others)


def call_on_one_core() -> None:
    """Returns when the calls of 20 ms were not divided; raises if all of 5 s were."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    x = np.ones((4000, 1000), np.float32)
    y = np.empty_like(x)
    call = elementwise.call("multiply", y, [x, x])
    library.set_threads(3)
    begin = window = time.monotonic()
    ran = run_time_of_others()
    while time.monotonic() - begin < 5:
        call()
        if time.monotonic() - window > 0.02:
            if y.all() and begin + 0.5 < window and ran == run_time_of_others():
                return
            window, ran = time.monotonic(), run_time_of_others()
    raise AssertionError("calls are divided among threads that share a core")


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel counts no times")
@pytest.mark.skipif(not library.is_available(), reason="no compiled kernels")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork")
def test_threads_that_share_a_core_leave_calls_to_the_caller() -> None:
    assert in_a_fork(call_on_one_core) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_memory_is_free_before_the_collector_runs(workers: int) -> None:
    """A mapped model and its plans stayed beside those of a student: 18 MB of MobileNetV2."""
    gc.collect()
    gc.disable()
    try:
        trainer = Trainer(network(), info(16), micro_batch=4, workers=workers)
        trainer.step(data(16), 16)
        engine = weakref.ref(trainer.runtime.engine_of(0))
        assert engine()
        trainer.close()
        del trainer
        assert engine() is None
    finally:
        gc.enable()
