"""Forecast of the memory and the time of training."""

import time
from collections.abc import Mapping
from dataclasses import asdict, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from odt.arguments import checked_arguments
from odt.core.data.array_columns import array_columns
from odt.core.data.dataset import DataSet
from odt.core.data.split import split_last
from odt.core.lowering.lower import LoweredGraphs
from odt.core.options.analysis_options import PLAN_OPTIONS
from odt.core.options.fit_options import FIT_OPTIONS
from odt.core.options.training_options import BF16
from odt.core.planning.budget.arena_usage import arena_usage
from odt.core.planning.budget.fit_budget import fit_budget
from odt.core.planning.budget.forecast import Forecast
from odt.core.planning.budget.savings import savings
from odt.core.planning.computation import Computation, Plans
from odt.core.planning.schedule import on_cores
from odt.core.quantization.frozen_int8 import frozen_in_int8
from odt.core.recipe.computations import with_stored_weights
from odt.core.recipe.option_values import check_option
from odt.core.recipe.prepare import Recipe
from odt.core.recipe.sample_specs import SampleSpecs
from odt.core.recipe.training_outputs import describe_left_out
from odt.core.storage.free_memory import in_process_of
from odt.core.storage.mapped_pages import DATA_PAGES
from odt.core.training.frozen_cache import CachePolicy, cache_policy, cache_size, split_frozen
from odt.core.training.metrics import metrics_nbytes
from odt.core.training.passes import computations
from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.kernels.native.library import machine
from odt.kernels.native.target import other_target, planning_for
from odt.models.model import Model, Path, file_of
from odt.text import Text, size
from odt.training import plan_text as text
from odt.training.board_times import costs_on
from odt.training.boards import Board, find_board
from odt.training.fitting import most_untrained
from odt.training.memory_text import describe_cache, precision_line
from odt.training.run_time import RunSize, RunTime, Tuning, measured_time, run_time
from odt.training.session import EXPORTED, Session, process_nbytes
from odt.training.teacher import outputs_nbytes
from odt.training.trainer import Trainer

if TYPE_CHECKING:
    from odt.charts.plot import Plot

# Parts of the peak in the order of the text, as attributes of the forecast.
PARTS = (
    "parameters",
    "optimizer",
    "gradients",
    "arenas",
    "packed",
    "constants",
    "data",
    "overhead",
    "dequantized",
    "frozen",
    "cache",
)


@dataclass(frozen=True, slots=True)
class MemoryDetails:
    """The parts of a forecast, from which its text is made.

    Attributes:
        recipe: the resolved training run.
        forecast: plans, schedule and bytes.
        training: the computation of a training step.
        reserves: bytes for other uses, by keys of LEAVE_OUT in fit_budget.
        policy: options of the cache of the frozen layers; None for no cache.
        cached: bytes of the cached values, in memory or on disk.
    """

    recipe: Recipe
    forecast: Forecast
    training: Computation
    reserves: Mapping[str, int]
    policy: CachePolicy | None
    cached: int


@dataclass(frozen=True, slots=True)
class MemoryForecast:
    """Memory that training needs, in bytes.

    Attributes:
        peak: peak memory of training, without Python and its modules. Weights are copied from the
            file before training begins; if copying needs more memory than training, the peak is
            that of copying. Usually, it is that of training, the sum of the parts below. For a C
            program, it is the static memory of the program, like `allocated`.
        process: peak memory of the whole process, with Python and the modules that it has imported;
            0 for a C program.
        limit: bytes that the process may use; None for no limit.
        time: seconds of the run, in `total`, and of its parts; None if the number of samples is not
            known, or for a C program.
        parameters: copies of the trainable weights.
        optimizer: optimizer state.
        gradients: accumulated gradients; 0 if each weight is updated as soon as its gradient is
            complete.
        arenas: activations, their gradients and workspace of all workers.
        micro_batch: samples that a worker computes at once.
        workers: number of worker threads.
        constants: weights that do not train, in the mapped model file; not part of the peak of a
            C program.
        data: pages of the mapped data files with a memory budget. Without a budget, the system may
            keep more of them in memory. 0 for a C program.
        overhead: Python objects and libraries, estimated; 0 for a C program.
        packed: weights in the layout of the kernels, packed once in a step.
        dequantized: initial float32 values of the weights that the file stores in another type; 0
            for a C program.
        frozen: arenas of the frozen layers that `cache_frozen` caches, in the first epoch only.
        cache: values that `cache_frozen` keeps in memory, outputs of a teacher or for metrics, and
            the copy of `keep_best`.
        later: peak of later epochs.
        batch_size: samples of a batch.
        forward_calls: number of calls of the forward pass, which come first in a step.
        details: the parts of the forecast; their form may change.
    """

    peak: int
    process: int
    limit: int | None
    time: RunTime | None
    parameters: int
    optimizer: int
    gradients: int
    arenas: int
    micro_batch: int
    workers: int
    constants: int
    data: int
    overhead: int
    packed: int
    dequantized: int
    frozen: int
    cache: int
    later: int
    batch_size: int
    forward_calls: int
    details: MemoryDetails = field(repr=False, compare=False)

    @property
    def allocated(self) -> int:
        """Sum of parameters, optimizer, gradients, arenas and packed, which each step uses."""
        return self.parameters + self.optimizer + self.gradients + self.arenas + self.packed

    def __str__(self) -> str:
        """Returns the text of `odt plan`."""
        return self.summary()

    def summary(self) -> str:
        """Returns the text of `odt plan`: schedule, memory by purpose, savings, and the verdict."""
        details = self.details
        forecast = self.details.forecast
        info = details.recipe.info
        cache = ""
        if details.policy is not None:
            cache = describe_cache(details.policy, details.cached)
            if details.policy.on_disk:
                cache += "; mapped part of it"
        left_out = describe_left_out(details.recipe.lowered)
        with planning_for(forecast.target):
            saved = savings(forecast, details.training)
        lines = [
            *([left_out] if left_out else []),
            *text.describe_schedule(forecast),
            *text.describe_ranges(forecast.plan, info.quant_ranges),
            *([precision_line(forecast.plan)] if info.precision == BF16 else []),
            *text.describe_memory(forecast, info, details.reserves, cache, self.process),
            *text.describe_savings(saved),
            *text.describe_peak(forecast.running),
            *(["", self.verdict] if self.process else []),
        ]
        return Text("\n".join(lines))

    def __repr__(self) -> str:
        return f"MemoryForecast({self._headline})"

    @property
    def _headline(self) -> str:
        """The peak and how a batch runs, in a line."""
        schedule = text.describe_schedule(self.details.forecast)[0]
        return f"training takes {size(self.peak)}, {schedule}"

    def plot(self) -> "Plot":
        """Returns the chart of the memory over a training step, which a notebook shows."""
        from odt.training import plan_html

        return plan_html.plot(self._memory)

    def _repr_html_(self) -> str:
        from odt.training import plan_html

        parts = [(name, getattr(self, name)) for name in PARTS]
        parts += [("peak", self.peak), ("process", self.process)]
        headlines = [self._headline]
        if self.process:
            headlines.insert(0, self.verdict)
        return plan_html.html(headlines, parts, self._memory, str(self))

    @property
    def _memory(self) -> dict[str, Any]:
        """The memory of a step, in the form of the memory.json of a run."""
        return {
            "parameters": self.parameters,
            "optimizer": self.optimizer,
            "gradients": self.gradients,
            "packed": self.packed,
            "total": self.allocated,
            "batch": self.batch_size,
            "micro_batch": self.micro_batch,
            "workers": self.workers,
            "forward": self.forward_calls,
            "arenas": self.usage(),
        }

    @property
    def verdict(self) -> str:
        """Whether the process fits into its limit, and the time that the run takes."""
        fits = text.memory_verdict(self.process, self.limit)
        return f"{fits} {self.time}" if self.time else fits

    def as_dict(self) -> dict[str, Any]:
        """Returns the numbers by name, for JSON: bytes, seconds, and None for what is unknown."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "details"}
        values["time"] = self.time and {**asdict(self.time), "total": self.time.total}
        return values

    def calls(self) -> str:
        """Returns the plan, the memory plan and the calls of a step, as text."""
        forecast = self.details.forecast
        with planning_for(forecast.target):
            return Text("\n".join(text.describe_calls(forecast.running, forecast.memory)))

    def usage(self) -> dict[str, list[int]]:
        """Returns the bytes in use in all arenas at each call of a step, by kind of value.

        Returns:
            "data", "activations", "gradients" and "workspace" → one number for each call.
        """
        forecast = self.details.forecast
        return arena_usage(forecast.running, forecast.schedule.workers)


@checked_arguments
def plan(
    model: Model | Path,
    x: Any = None,
    y: Any = None,
    *,
    epochs: int = 1,
    validation_split: float = 0.0,
    patience: int | None = None,
    data_length: int | None = None,
    board: Board | Path | None = None,
    target: str | None = None,
    **options: Any,
) -> MemoryForecast:
    """Plans the memory of training, and the time of a run whose number of samples is known.

    The time follows from steps that run here for at most 2 seconds, on random samples if only
    `data_length` is given; their memory is allocated meanwhile. Nothing runs and no memory of
    training is allocated if `board` or `target` is given, or if neither `x` nor `data_length` is
    given.

    Args:
        model: a model or the path of its file.
        x: inputs of the run, as in `Trainer.fit`; None if they are not known.
        y: targets, as in `Trainer.fit`.
        epochs: number of epochs of the run.
        validation_split: fraction of the samples used for validation.
        patience: number of epochs without an improvement after which the run stops early. The time
            of all epochs is then an upper bound.
        data_length: number of samples, for training and validation together. With `x`, only its
            first samples are used. The memory of `cache_frozen`, of a teacher and of metrics such
            as AUC depends on this number.
        board: machine to plan for, instead of this one: the name of a board, such as "pi-4", a file
            of `odt benchmark-board`, or a Board. Time is computed from its rates, and nothing is
            measured. The kernels are those of this machine. docs/memory.md lists the boards.
        target: machine of a C program, as in `compile`, whose static memory is planned; None for a
            process on this machine.
        options: arguments of Trainer. `frozen_int8=True` stands for inputs that are not known yet;
            their values do not change the memory.

    Raises:
        ModelError: if the model or the checkpoint cannot be read.
        UnsupportedError: if the model cannot be trained.
        OptionError: if options contradict each other or the model.
        DataError: if the samples do not match the model.
    """
    fit_values = {"epochs": epochs, "validation_split": validation_split, "patience": patience}
    for name, value in fit_values.items():
        check_option(FIT_OPTIONS[name], value)
    check_option(PLAN_OPTIONS["data_length"], data_length)
    run = _Run(x, y, data_length, epochs, validation_split, patience is not None)
    if board is not None:
        there = find_board(board)
        if target is not None:
            raise OptionError("board", "must be left out with `target=`", there.name)
        with in_process_of(there.process), on_cores(there.threads):
            return _forecast(model, run, options, there)
    if target is None:
        return _forecast(model, run, options)
    check_option(PLAN_OPTIONS["target"], target)
    if x is not None:
        raise OptionError("x", "must be left out with `target=`, where nothing is measured", "it")
    if options.get("workers") not in (None, 1):
        raise OptionError("workers", "must be 1: a C program has one", options["workers"])
    with planning_for(machine(target)):
        return _forecast(model, run, options)


@dataclass(frozen=True, slots=True)
class _Run:
    """Samples and epochs of a run; attributes as the arguments of `plan`."""

    x: Any
    y: Any
    length: int | None
    epochs: int
    validation_split: float
    stops_early: bool

    def open(self, session: Session) -> DataSet | None:
        """Opens the samples, if there are some."""
        if self.x is not None:
            return session.open(self.x, self.y)
        if self.y is not None:
            raise OptionError("y", "must be given with `x=`", "targets alone")
        return None

    def size(self, data: DataSet | None) -> RunSize:
        """Returns the numbers of samples, 0 if they are not known."""
        samples = self.length or (data.length if data else 0)
        if data and samples > data.length:
            rule = f"must be at most {data.length}, the number of samples"
            raise OptionError("data_length", rule, samples)
        validation = len(split_last(samples, self.validation_split).validation) if samples else 0
        return RunSize(samples - validation, validation, self.epochs, self.stops_early)


def _forecast(
    model: Model | Path, run: _Run, options: Mapping[str, Any], board: Board | None = None
) -> MemoryForecast:
    """Returns the forecast for the machine that runs the plan: this one, a target or a board."""
    before = time.perf_counter()
    process = process_nbytes(file_of(model) if isinstance(model, Model) else None)
    trainer = Trainer(model, **options)
    opened = time.perf_counter() - before
    session = trainer.session
    trainer_options = session.options
    data = run.open(session)
    first = most_untrained(session.samples.losses[0], session.recipe.info.batch_size)
    run_size = run.size(data)._replace(untrained=first)
    samples = run_size.samples
    policy = cache_policy(trainer_options.cache_frozen, trainer_options.cache_dtype, samples)
    if policy and not samples:
        rule = "must be given with `data_length=`, the number of samples"
        raise OptionError("cache_frozen", rule, "one alone")
    recipe = session.recipe
    info = recipe.info
    plans = Plans(_graphs_of(session, options.get("frozen_int8")))
    runs = computations(plans.graphs, info, session.metrics)
    training, _ = runs
    plans = with_stored_weights(plans, training, info)
    reserves = _reserves(session, plans, training, samples)
    cached = 0
    if policy:
        runs = split_frozen(plans, runs)
        training, _ = runs
        cache = cache_size(plans, training, info.batch_size, policy)
        reserves["a cache"] = cache.resident
        cached = cache.nbytes
    forecast = fit_budget(
        plans,
        runs,
        info,
        session.memory_budget,
        session.micro_batch,
        session.workers,
        reserves=reserves,
        process=process,
    )
    if data is not None and session.memory_budget is None:
        in_order = bool(policy) and not run_size.validation
        mapped = max(data.mapped_nbytes(in_order=in_order), DATA_PAGES)
        forecast = replace(forecast, data=forecast.data + mapped - DATA_PAGES)
    has_time = samples and not (session.teacher or other_target() or options.get("frozen_int8"))
    duration: RunTime | None = None
    if has_time and board is not None:
        duration = run_time(
            run_size,
            costs_on(board, forecast, training),
            forecast.schedule.batch,
            opened=board.start,
            fine_tunes=Tuning.CHOOSES if session.rate_is_default else Tuning.NOTHING,
            basis=f"from {board.basis} rates of {board.name}",
        )
    elif has_time:
        duration = measured_time(trainer, data, run_size, opened)
    return MemoryForecast(
        peak=forecast.peak,
        process=process + forecast.peak if process else 0,
        limit=session.memory_budget or (board.ram if board else None),
        time=duration,
        parameters=forecast.parameters,
        optimizer=forecast.slots,
        gradients=forecast.gradients,
        arenas=forecast.arena,
        micro_batch=forecast.schedule.micro_batch,
        workers=forecast.schedule.workers,
        constants=forecast.constants,
        data=forecast.data,
        overhead=forecast.overhead,
        packed=forecast.packed,
        dequantized=forecast.dequantized,
        frozen=forecast.frozen,
        cache=forecast.cache,
        later=forecast.later,
        batch_size=forecast.schedule.batch,
        forward_calls=forecast.running.forward_entries,
        details=MemoryDetails(recipe, forecast, training, reserves, policy, cached),
    )


def _graphs_of(session: Session, frozen_int8: Any) -> LoweredGraphs:
    """Returns the graphs that train; the frozen part computes integers if training does so."""
    graphs = session.recipe.graphs
    if frozen_int8 is True:
        samples = partial(_ones, graphs.file_batch)
        return frozen_in_int8(session.recipe, samples)
    return session.with_frozen_integers(graphs)


def _ones(count: int, specs: SampleSpecs) -> DataSet:
    """Returns samples whose values are all 1."""
    arrays = [np.ones((count, *spec.shape), spec.dtype) for spec in specs.input_specs]
    return DataSet(array_columns(arrays, specs.input_specs, "input", specs.quantizations))


def _reserves(
    session: Session,
    plans: Plans,
    training: Computation,
    samples: int,
) -> dict[str, int]:
    """Returns the bytes that training takes besides its plans, by keys of LEAVE_OUT."""
    best = 0
    if session.options.keep_best:
        plan = plans.plan(training, plans.graphs.file_batch)
        tensors = [i for i in (plan.values[n].tensor for n in plan.parameters) if i is not None]
        best = sum(plan.graph.tensors[i].spec.nbytes for i in tensors)
    teacher = session.teacher
    specs = session.samples
    _, output = specs.losses[0]
    return {
        "a copy of the best weights": best,
        "a teacher's outputs": outputs_nbytes(teacher, specs, samples) if teacher else 0,
        "outputs kept for metrics": metrics_nbytes(session.metrics, samples, output),
        EXPORTED: 0 if other_target() else session.recipe.export_nbytes,
    }
