"""Rates of machines, and the time of a run on them."""

import json
import math
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np

from odt.core.planning.budget.forecast import Forecast
from odt.core.planning.computation import Computation
from odt.core.planning.cost import TOGETHER
from odt.core.planning.plan import Call, Plan
from odt.core.planning.schedule import available_cores, on_cores
from odt.core.storage.reading import reading
from odt.dataclass import dataclass
from odt.errors import ModelError, OptionError
from odt.kernels.native.library import is_available, kernels_in_use
from odt.models.creation import new_model
from odt.models.model import Model, Path
from odt.training.run_time import Costs, RunSize, measured_time
from odt.training.session import process_nbytes
from odt.training.trainer import Trainer

# Operators whose time follows from a rate of the board, by the name of the rate.
DENSE = frozenset(
    ("FULLY_CONNECTED", "BATCH_MATMUL", "UNIDIRECTIONAL_SEQUENCE_LSTM", "GRU", "RNN", "LSTM")
)
CONVOLUTION = frozenset(("CONV_2D", "TRANSPOSE_CONV", "CONV_3D"))
DEPTHWISE = frozenset(("DEPTHWISE_CONV_2D",))
SPLIT = 0.65  # gain of each further core that shares a call of the only worker
SHARED = 100e-6  # seconds from which calls are shared
MEASURED, ESTIMATED = "measured", "estimated"
RATES = ("dense", "convolution", "depthwise")


@dataclass(frozen=True, slots=True)
class Board:
    """Rates of a machine, of one thread, from which the time of a run is estimated.

    Attributes:
        name: its name.
        processor: its processor.
        kernels: instruction set of the compiled kernels, or NumPy.
        threads: number of cores.
        ram: bytes of memory.
        process: bytes of a process before training.
        start: seconds until `odt train` has read a small model.
        dense: operations per second of matrix products.
        convolution: operations per second of convolutions.
        depthwise: operations per second of depthwise convolutions.
        memory: bytes per second that operators read and write.
        call: seconds of a call beside its arithmetic.
        numpy_call: the same for a kernel of NumPy.
        step: seconds of a step beside its calls.
        basis: "measured" or "estimated".
    """

    name: str
    processor: str
    kernels: str
    threads: int
    ram: int
    process: int
    start: float
    dense: float
    convolution: float
    depthwise: float
    memory: float
    call: float
    numpy_call: float
    step: float
    basis: str

    def __str__(self) -> str:
        """Returns the row as JSON, as `odt benchmark-board` writes it."""
        return json.dumps(asdict(self), indent=2)


def _estimated(
    name: str, processor: str, ram: int, clock: float, flops: int, memory: float, slower: float
) -> Board:
    """Returns a row from published figures of a board.

    Matrix products are assumed to reach 60 % of the peak of a core, convolutions 45 % and
    depthwise convolutions 15 %, the fractions of a core of x86-64 with AVX2; half of the memory's
    bandwidth is assumed to be for one core. Python and calls are slower than there by the ratio of
    published results for one core.

    Args:
        name: name of the board.
        processor: its processor.
        ram: bytes of memory.
        clock: clock in Hz.
        flops: float32 operations of a core per cycle.
        memory: bandwidth of the memory in bytes per second.
        slower: speed of a core of the machine with the figures of calls, over that of the board's.
    """
    peak = clock * flops
    return Board(
        name=name,
        processor=processor,
        kernels="neon",
        threads=4,
        ram=ram,
        process=48_000_000,
        start=0.4 * slower,
        dense=0.6 * peak,
        convolution=0.45 * peak,
        depthwise=0.15 * peak,
        memory=memory / 2,
        call=0.5e-6 * slower,
        numpy_call=20e-6 * slower,
        step=30e-6 * slower,
        basis=ESTIMATED,
    )


# Arguments of `_estimated`: memory, clock, FLOP per cycle of NEON and bandwidth are published; the
# last one is a ratio of published results. None of these boards has run odt.
BOARDS: Mapping[str, Board] = {
    board.name: board
    for board in (
        _estimated("pi-zero-2", "Cortex-A53, 1.0 GHz", 512 * 2**20, 1.0e9, 8, 3.6e9, 12.0),
        _estimated("pi-3", "Cortex-A53, 1.2 GHz", 2**30, 1.2e9, 8, 3.6e9, 10.0),
        _estimated("pi-4", "Cortex-A72, 1.5 GHz", 4 * 2**30, 1.5e9, 8, 12.8e9, 5.0),
        _estimated("pi-5", "Cortex-A76, 2.4 GHz", 8 * 2**30, 2.4e9, 16, 17.1e9, 2.2),
        _estimated("jetson-nano", "Cortex-A57, 1.43 GHz", 4 * 2**30, 1.43e9, 8, 25.6e9, 6.0),
    )
}


def find_board(board: Path) -> Board:
    """Returns a board by its name, or from a file that `odt benchmark-board` wrote.

    Raises:
        OptionError: if there is neither, or the file has other fields.
        ModelError: if the file is not JSON.
    """
    name = os.fspath(board)
    if isinstance(name, str) and name in BOARDS:
        return BOARDS[name]
    if not os.path.exists(name):
        rule = f"must be one of {', '.join(BOARDS)}, or a file of `odt benchmark-board`"
        raise OptionError("board", rule, name)
    rule = "must be JSON of `odt benchmark-board`"
    with reading(os.fsdecode(name), rule, ModelError), open(name, encoding="utf-8") as file:
        values = json.load(file)
    return _board_of(name, values)


def _board_of(path: Any, values: Any) -> Board:
    """Returns the board that JSON describes.

    Raises:
        OptionError: if a field is missing, unknown, of another type or not above 0.
    """
    types = {f.name: f.type for f in fields(Board)}
    if not isinstance(values, dict) or values.keys() != types.keys():
        rule = f"must be JSON with the fields {', '.join(types)}"
        raise OptionError("board", rule, path)
    for name, kind in types.items():
        value = values[name]
        if kind is str:
            rule = "text"
            is_valid = isinstance(value, str)
        else:
            rule = "a number above 0"
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            is_valid = is_number and value > 0
        if not is_valid:
            raise OptionError("board", f"{path}: {name} must be {rule}", value)
    return Board(**values)


# ---- time of a plan


def run_seconds(plan: Plan, board: Board, entries: int | None = None, cores: int = 1) -> float:
    """Estimates the seconds of the calls of a plan, or of its first entries.

    Args:
        plan: the plan.
        board: the board that runs it.
        entries: number of entries; None for all.
        cores: number of cores that share a call.
    """
    calls = [entry for entry in plan.entries[:entries] if isinstance(entry, Call)]
    return sum(_call_seconds(plan, call, board, cores) for call in calls)


def _call_seconds(plan: Plan, call: Call, board: Board, cores: int) -> float:
    """Estimates the seconds of a call: its fixed cost, its arithmetic and its memory accesses."""
    nbytes = sum(plan.values[v].spec.nbytes for v in call.arrays.values())
    overhead = board.numpy_call if call.compiled is None else board.call
    rate = _rate(call, board)
    seconds = (call.flops / rate if rate else 0.0) + nbytes / board.memory
    if seconds > SHARED:
        seconds /= 1 + SPLIT * (cores - 1)
    return overhead + seconds


def _rate(call: Call, board: Board) -> float:
    """Returns the operations per second of a call; 0 for one that only moves bytes."""
    words = call.label.split()  # position of the node, operator, and gradient
    op = words[1] if len(words) > 1 else ""
    if op in DEPTHWISE:
        return board.depthwise
    if op in CONVOLUTION:
        return board.convolution
    return board.dense if op in DENSE else 0.0


def costs_on(board: Board, forecast: Forecast, training: Computation) -> Costs:
    """Estimates the parts of a run on a board.

    Args:
        board: the board.
        forecast: plans and schedule of the run.
        training: the computation of a training step; it begins after frozen layers that are cached.
    """
    schedule = forecast.schedule
    runs = -(-schedule.batch // schedule.micro_batch)
    plan = forecast.plan
    alone = schedule.workers == 1
    cores = board.threads if alone else 1
    together = 1.0 if alone else TOGETHER

    def batch_seconds(plan: Plan, entries: int | None = None) -> float:
        one = run_seconds(plan, board, entries, cores)
        return one * -(-runs // schedule.workers) * together

    # Sums and updates read two arrays and write one.
    adding = 3 * sum(plan.gradient_nbytes.values()) * (runs if runs > 1 else 0)
    update = 3 * (forecast.parameters + forecast.slots)
    step = batch_seconds(plan) + (adding + update) / board.memory + board.step
    forward = batch_seconds(plan, plan.forward_entries)
    frozen = 0.0
    if training.begin:
        part = Computation(end=training.begin)
        frozen_plan, _ = forecast.plans.at(part, schedule.micro_batch)
        frozen = batch_seconds(frozen_plan) / schedule.batch
    return Costs(step, forward / schedule.batch, frozen)


# ---- measurement


def benchmark_board(name: str = "") -> Board:
    """Measures the rates of this machine in a few seconds: a row for `plan(board=…)`.

    Small networks train on one thread, and the rates are those with which their estimated time is
    the measured one. The time is that of the processor, which other processes do not lengthen.

    Args:
        name: name of the board; that of the machine if left out.
    """
    process = process_nbytes()
    imports = time.thread_time()  # since Python began, without the threads of NumPy
    short = _measured(_dense((16,)), 16)
    long = _measured(_dense((16,) * 12), 16)
    call = max((long.seconds - short.seconds) / (long.calls - short.calls), 1e-8)
    step = max(short.seconds - short.calls * call, 1e-7)
    rates = Board(
        name=name or platform.node() or "board",
        processor=_processor(),
        kernels=kernels_in_use() if is_available() else "NumPy",
        threads=available_cores(),
        ram=_ram(),
        process=process,
        start=imports + short.prepared,
        dense=1.0,
        convolution=1.0,
        depthwise=1.0,
        memory=_memory(),
        call=call,
        numpy_call=_numpy_call(),
        step=step,
        basis=MEASURED,
    )
    networks: Mapping[str, Model] = {
        "dense": _dense((512, 512)),
        "convolution": new_model("cnn", input_shape=(32, 32, 16), outputs=10, filters=(64, 64)),
        "depthwise": new_model("ds-cnn", input_shape=(32, 32, 16), outputs=10, filters=(64,)),
    }
    for rate, network in networks.items():
        rates = _measured(network, 32).with_rate(rates, rate)
    return rates


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
    def calls(self) -> int:
        """Number of calls."""
        return sum(isinstance(entry, Call) for entry in self.plan.entries)

    def with_rate(self, board: Board, name: str) -> Board:
        """Returns the board with the rate for which the estimated time is the measured one.

        Args:
            board: the rates that are known.
            name: the rate, one of dense, convolution and depthwise.
        """
        # At an infinite rate, arithmetic takes no time: `others` leaves out the calls of this rate,
        # and with `only`, these are the calls whose rate is 1.
        without: dict[str, Any] = {name: math.inf}
        alone: dict[str, Any] = {**dict.fromkeys(RATES, math.inf), name: 1.0}
        others = replace(board, **without)
        only = replace(board, **alone)
        rest = run_seconds(self.plan, others) + 3 * self.updated / board.memory + board.step
        calls = [entry for entry in self.plan.entries if isinstance(entry, Call)]
        flops = sum(call.flops for call in calls if _rate(call, only) == 1.0)
        # Small differences of large times say little: arithmetic takes at least a tenth of them.
        seconds = max(self.seconds - rest, 0.1 * self.seconds)
        measured: dict[str, Any] = {name: flops / seconds}
        return replace(board, **measured)


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
