"""Measures the rates of this machine, as a board for `plan(board=…)`."""

import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from odt.arguments import checked_arguments
from odt.core.planning.cost import Rates
from odt.core.planning.plan import Call, Plan
from odt.core.planning.schedule import available_cores, on_cores
from odt.dataclass import dataclass
from odt.errors import OdtError
from odt.kernels.native.library import is_available, kernels_in_use
from odt.kernels.rows.opdef import Arithmetic
from odt.models.creation import new_model
from odt.models.model import Model
from odt.training.board_times import run_seconds
from odt.training.boards import MEASURED, Board
from odt.training.run_time import RunSize, measured_time
from odt.training.trainer import Trainer

# What a process imports before it trains, and then its seconds and bytes. This process may have
# computed and imported anything before.
PROCESS = """
import time
from importlib import import_module
from odt.training import session, trainer
for name in ("numpy.random", *session.COUNTED):
    import_module(name)
print(time.thread_time(), session.process_nbytes())
"""


@checked_arguments
def benchmark_board(name: str = "") -> Board:
    """Measures the rates of this machine in a few seconds: a board for `plan(board=…)`.

    Small networks train on one thread. The rates are chosen so that the times estimated for these
    networks are the times measured: CPU times, which other processes do not lengthen. Start and
    size of a process are measured in a new process. The command `odt benchmark-board` writes `str`
    of the board to its file.

    Args:
        name: name of the board; that of the machine if left out.

    Raises:
        OdtError: if no new process of Python can be started.
    """
    imports, process = _new_process()
    short = _measured(_dense((16,)), 16)
    long = _measured(_dense((16,) * 12), 16)
    calls = len(long.calls) - len(short.calls)
    call = max((long.seconds - short.seconds) / calls, 1e-8)
    step = max(short.seconds - len(short.calls) * call, 1e-7)
    memory = _memory()
    # At an infinite rate, arithmetic takes no time.
    rates = Rates(math.inf, math.inf, math.inf, math.inf, memory, call, _numpy_call())
    networks = {
        Arithmetic.DENSE: _dense((512, 512)),
        Arithmetic.CONVOLUTION: new_model(
            "cnn", input_shape=(32, 32, 16), outputs=10, filters=(64, 64)
        ),
        Arithmetic.DEPTHWISE: new_model(
            "ds-cnn", input_shape=(32, 32, 16), outputs=10, filters=(64,)
        ),
    }
    for kind, network in networks.items():
        measured: dict[str, Any] = {kind.value: _measured(network, 32).rate(kind, rates, step)}
        rates = replace(rates, **measured)
    return Board(
        name=name or platform.node() or "board",
        processor=_processor(),
        kernels=kernels_in_use() if is_available() else "NumPy",
        threads=available_cores(),
        ram=_ram(),
        process=process,
        start=imports + short.prepared,
        dense=rates.dense,
        convolution=rates.convolution,
        depthwise=rates.depthwise,
        memory=memory,
        call=call,
        numpy_call=rates.numpy_call,
        step=step,
        basis=MEASURED,
    )


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of a network on one thread, and its seconds.

    Attributes:
        plan: its plan.
        updated: bytes of weights and optimizer state.
        seconds: its measured time.
        prepared: seconds of planning and binding.
    """

    plan: Plan
    updated: int
    seconds: float
    prepared: float

    @property
    def calls(self) -> Sequence[Call]:
        """Its calls."""
        return [entry for entry in self.plan.entries if isinstance(entry, Call)]

    def rate(self, kind: Arithmetic, rates: Rates, step: float) -> float:
        """Returns the operations per second for which the estimated time is the measured one.

        Args:
            kind: kind of operations.
            rates: the other rates; that of this kind is infinite.
            step: seconds of a step beside its calls.
        """
        rest = run_seconds(self.plan, rates) + 3 * self.updated / rates.memory + step
        flops = sum(call.flops for call in self.calls if call.arithmetic is kind)
        # Small differences of large times say little: arithmetic takes at least a tenth of them.
        return flops / max(self.seconds - rest, 0.1 * self.seconds)


def _dense(hidden: Sequence[int]) -> Model:
    """Returns a network of dense layers."""
    return new_model("mlp", input_shape=(hidden[0],), outputs=10, hidden=hidden)


def _measured(network: Model, batch: int) -> _Step:
    """Measures a step of a network on one thread."""
    options = {"batch_size": batch, "micro_batch": batch, "workers": 1, "learning_rate": 1e-3}
    with on_cores(1), Trainer(network, **options) as trainer:  # type: ignore[arg-type]
        size = RunSize(batch, 0, 1, False)
        run = measured_time(trainer, None, size, 0.0, time.process_time)
        core = trainer.session.build()
        memory = core.memory()
        return _Step(core.plan, memory.parameters + memory.slots, run.step, run.start)


def _new_process() -> tuple[float, int]:
    """Returns seconds and bytes of a new process that has imported what training needs."""
    command = [sys.executable, "-c", PROCESS]
    try:
        done = subprocess.run(command, text=True, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as e:
        raise OdtError(f"benchmark_board: must start a new process of Python, but got: {e}") from e
    seconds, nbytes = done.stdout.split()
    return float(seconds), int(nbytes)


def _memory() -> float:
    """Returns the bytes per second that an operator reads and writes, in the cache of a core."""
    a, b, c = (np.ones(2**18, np.float32) for _ in range(3))
    return 3 * a.nbytes / _seconds(lambda: np.add(a, b, out=c))


def _numpy_call() -> float:
    """Returns the seconds of a kernel's calls of NumPy beside their arithmetic, about ten."""
    a = np.zeros(1, np.float32)
    return 10 * _seconds(lambda: np.add(a, a, out=a))


def _seconds(run: Callable[[], object]) -> float:
    """Returns the seconds of a function: the median of ten means of 200 calls."""
    times = []
    for _ in range(10):
        before = time.process_time()
        for _ in range(200):
            run()
        times.append((time.process_time() - before) / 200)
    return sorted(times)[len(times) // 2]


def _processor() -> str:
    """Returns the name of the processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            values = dict(line.split(":", 1) for line in file if ":" in line)
    except OSError:  # only Linux has it
        values = {}
    about = {key.strip(): value.strip() for key, value in values.items()}
    for key in ("model name", "Model"):  # on x86-64, and on boards with ARM
        if name := about.get(key):
            return name
    return platform.machine() or "unknown"


def _ram() -> int:
    """Returns the bytes of memory."""
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 2**30
