"""A training step as plain data: calls over static memory, without the loop of Python."""

import ctypes
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any

from odt.core.emit.batch_sizes import LinearStruct, grouped
from odt.core.emit.refusals import check_step
from odt.core.planning.computation import Computation
from odt.core.planning.plan import Plan
from odt.core.runtime.dropout_masks import bind_masks
from odt.core.runtime.engine import Engine
from odt.core.runtime.optimizer import Optimizer
from odt.core.runtime.parameters import Parameters, by_name
from odt.core.runtime.program import Program
from odt.core.runtime.programs import Programs
from odt.core.training.trainer import TRAINING, VALIDATION, Trainer
from odt.dataclass import dataclass
from odt.errors import UnsupportedError
from odt.kernels.native.binding import Calls, Run, without_checks
from odt.kernels.native.convolution import adds_to_results
from odt.kernels.native.regions import Place, Regions, address
from odt.kernels.native.structs import WindowWalk
from odt.kernels.native.table import Row, Table
from odt.kernels.native.updates import RowSums
from odt.kernels.native.window_walk import reads_volumes
from odt.kernels.registry import LOSSES
from odt.kernels.rows.lossdef import LABELS
from odt.kernels.rows.opdef import Array, TensorSpec
from odt.kernels.rows.scheduledef import Schedule
from odt.kernels.rows.term import Term, chosen


@dataclass(frozen=True, slots=True)
class Argument:
    """An input, target or output of a pass.

    Attributes:
        name: name in the model.
        place: where the pass reads or writes it.
        spec: shape, with the most samples of the pass first, and type.
    """

    name: str
    place: Place
    spec: TensorSpec


@dataclass(frozen=True, slots=True)
class Pass:
    """Calls on the samples of a batch, or of a micro-batch.

    Attributes:
        least, most: numbers of samples for which these are the calls.
        forward: calls up to the losses and outputs.
        backward: calls that compute gradients; they update the weights, or fill `sums`.
        inputs, targets: arrays to fill before.
        scales: place and value of the factor of each loss, to fill before; values may be of the
            variable `batch`, the samples of the batch, or of `counted_k`, the samples of the batch
            times the fraction of the labels of target k that are not ignored.
        losses: places of the losses, whose sum is the loss of the batch.
        outputs: the model's outputs.
    """

    least: int
    most: int
    forward: Sequence[Row]
    backward: Sequence[Row]
    inputs: Sequence[Argument]
    targets: Sequence[Argument]
    scales: Sequence[tuple[Place, Term | float]]
    losses: Sequence[Place]
    outputs: Sequence[Argument]


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights that train, or an array like them.

    Attributes:
        name: name of the weights in the model; for another array, its role and this name.
        values: first values.
    """

    name: str
    values: Array


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers that updates read in each step.

    Attributes:
        array: operand of the calls that stands for them.
        terms: the numbers, of the variables `step` and `now`, the learning rate of the step.
    """

    array: ctypes.Array[ctypes.c_float]
    terms: Sequence[Term | float]


@dataclass(frozen=True, slots=True)
class StepProgram:
    """A training step for one batch size.

    Attributes:
        batch: samples of a batch.
        micro_batch: samples that a pass takes at most.
        arena: bytes of the arena.
        weights, state: memory regions after the arena, in order.
        sums: further regions, which hold values within a step: sums of the gradients of its
            micro-batches, gradients until they are clipped, or rounded weights.
        averages: numbers in `state` of the moving averages of the weights, in their order; empty
            for none. They replace the weights outside of training once there was a step.
        adds: int64 in `sums` that says whether backward calls add to sums; None if they need not.
        origin: three int64 in `sums`, from which random numbers follow: seed, number of the step
            and first sample of a micro-batch; None if a step needs no random numbers.
        before: calls before each batch, which round weights of quantized models.
        after: calls after those of all micro-batches, which update the weights by their sums.
        numbers: what updates read.
        learning_rate: the initial one.
        rate: the learning rate of a step, of the variables `rate`, which is `learning_rate` at
            first, and `step`.
        labels: targets of which `counted_k` is needed.
        train, evaluate, predict: what the program does with a micro-batch, by number of samples;
            the last is for whole ones.
    """

    batch: int
    micro_batch: int
    arena: int
    weights: Sequence[Weights]
    state: Sequence[Weights]
    sums: Sequence[Weights]
    averages: Sequence[int]
    adds: Place | None
    origin: Place | None
    before: Sequence[Row]
    after: Sequence[Row]
    numbers: Sequence[Numbers]
    learning_rate: float
    rate: Term
    labels: Sequence[int]
    train: Sequence[Pass]
    evaluate: Sequence[Pass]
    predict: Sequence[Pass]

    @property
    def kernels(self) -> frozenset[str]:
        """Names of the kernels that it calls."""
        return frozenset(row.name for row in self._rows)

    @property
    def reads_volumes(self) -> bool:
        """Whether a call reads windows of volumes."""
        operands = (a for row in self._rows for a in row.operands)
        structs = (a.struct if isinstance(a, LinearStruct) else a for a in operands)
        return any(isinstance(a, WindowWalk) and reads_volumes(a) for a in structs)

    @property
    def adds_to_results(self) -> bool:
        """Whether a product adds an array to its results before it stores them."""
        return any(adds_to_results(row.name, row.operands) for row in self._rows)

    @property
    def _rows(self) -> tuple[Row, ...]:
        passes = *self.train, *self.evaluate, *self.predict
        return (
            *self.before,
            *self.after,
            *(row for p in passes for row in (*p.forward, *p.backward)),
        )


def step_program(trainer: Trainer, path: str) -> StepProgram:
    """Returns the step of a trainer that was planned with one worker.

    Args:
        trainer: the trainer.
        path: path of the model, for messages.

    Raises:
        UnsupportedError: if parts of the step are not compiled; the message lists them.
    """
    training = trainer.runtime.engine_of(TRAINING)
    evaluating = trainer.runtime.engine_of(VALIDATION)
    predicting = trainer.runtime.engine(Computation(outputs=True))
    optimizer = trainer.parameters.optimizer
    assert optimizer is not None, "a trainer has one"
    schedule = training.schedule
    size = schedule.micro_batch
    programs = [e.programs.program(0, (size,)) for e in (training, evaluating, predicting)]
    check_step(trainer, programs, path)
    weights = _weights(trainer)
    state = _state(trainer)
    sums = _sums(trainer)
    adds = training.sums.adds[0]  # of the only worker
    if size < schedule.batch:
        sums.append(Weights("micro-batches before", adds))
    origin = trainer.parameters.origin
    if training.plan.masks or trainer.info.qas:  # which draw random numbers
        sums.append(Weights("origin of random numbers", origin))
    memory = [a.values for a in (*weights, *state, *sums)]
    labels = _ignored_labels(trainer)
    scales = _scales(training, trainer.info.reduction, labels)
    updates = training.sums.calls_after_step() if sums else []
    train_arena, train = _passes(training.programs, size, memory, scales, origin)
    evaluate_arena, evaluate = _passes(evaluating.programs, size, memory, scales, origin)
    predict_arena, predict = _passes(predicting.programs, size, memory, scales, origin)
    regions = Regions([programs[0].arena, *memory])
    return StepProgram(
        batch=schedule.batch,
        micro_batch=size,
        arena=max(train_arena, evaluate_arena, predict_arena),
        weights=weights,
        state=state,
        sums=sums,
        averages=range(len(state) - len(trainer.parameters.average.arrays), len(state)),
        adds=regions.place(address(adds)),
        origin=regions.place(address(origin)),
        before=_rows(trainer.parameters.rounding, regions),
        after=_rows(updates, regions),
        numbers=_numbers(trainer.parameters),
        learning_rate=_first_rate(optimizer),
        rate=_rate(optimizer.schedule),
        labels=labels,
        train=train,
        evaluate=evaluate,
        predict=predict,
    )


def _ignored_labels(trainer: Trainer) -> list[int]:
    """Returns the targets whose labels may be ignored in the mean of a batch."""
    if trainer.info.reduction == "sum":
        return []
    losses = trainer.runtime.engine_of(TRAINING).computation.losses
    return [k for k, loss in enumerate(losses) if LOSSES[loss.name].targets == LABELS]


def _scales(engine: Engine, reduction: str, labels: Sequence[int]) -> list[Term | float]:
    """Returns the factors of the losses, as `Engine.loss_scales` computes them.

    Args:
        engine: engine of a training step.
        reduction: sum_over_batch_size or sum.
        labels: targets whose labels may be ignored.
    """
    scales_of: Any = engine.loss_scales  # which computes with terms as with numbers
    scales: list[Term | float] = list(scales_of(Term("batch"), reduction))
    for k in labels:
        scales[k] = scales_of(Term(f"counted_{k}"), reduction)[k]
    return scales


def _weights(trainer: Trainer) -> list[Weights]:
    """Returns the weights that train."""
    tensors = by_name(trainer.graph, trainer.parameters.tensors)
    return [Weights(name, a) for name, a in tensors.items()]


def _state(trainer: Trainer) -> list[Weights]:
    """Returns the state of the optimizer, and after it the moving averages of the weights."""
    average = trainer.parameters.average.arrays
    slots = [*trainer.parameters.slots.items()]
    if average:
        slots.append(("average", average))
    return [
        Weights(f"{slot} of {name}", a)
        for slot, arrays in slots
        for name, a in by_name(trainer.graph, arrays).items()
    ]


def _sums(trainer: Trainer) -> list[Weights]:
    """Returns the memory that holds values within a step, apart from the arena."""
    engine_sums = trainer.runtime.engine_of(TRAINING).sums
    gradients = by_name(trainer.graph, engine_sums.sums[0])
    sums = [Weights(f"gradient of {name}", a) for name, a in gradients.items()]
    for part, name in enumerate(RowSums._fields):
        arrays = {i: table[part] for i, table in engine_sums.tables[0].items()}
        named = by_name(trainer.graph, arrays)
        sums += [Weights(f"{name} of the gradient of {n}", a) for n, a in named.items()]
    if engine_sums.clip_memory.size:
        sums.append(Weights("gradient clipping", engine_sums.clip_memory))
    rounded = by_name(trainer.graph, trainer.parameters.rounded)
    return [*sums, *(Weights(f"rounded {name}", a) for name, a in rounded.items())]


def _passes(
    programs: Programs,
    size: int,
    memory: Sequence[Array],
    scales: Sequence[Term | float],
    origin: Array,
) -> tuple[int, list[Pass]]:
    """Returns the bytes of the arena, and the passes for all numbers of samples.

    Args:
        programs: programs of one worker.
        size: samples of a micro-batch.
        memory: regions after the arena.
        scales: factors of the losses.
        origin: origin of the random numbers.
    """
    by_size = [programs.program(0, (size,))]
    # There are no smaller ones if the samples of a batch depend on each other.
    with suppress(UnsupportedError):
        by_size += map(programs.smaller, range(size - 1, 0, -1))
    passes = [_pass(program, memory, scales, origin) for program in reversed(by_size)]
    return max(len(program.arena) for program in by_size), _joined(passes)


def _rows(runs: Iterable[Run], regions: Regions) -> list[Row]:
    """Returns the calls of loops as rows of a table."""
    calls = [call for run in runs for call in without_checks(run)]
    loops = [call for call in calls if isinstance(call, Calls)]
    assert len(loops) == len(calls), "`check_step` refuses calls that are not compiled"
    return [*Table(loops, regions)]


def _pass(
    program: Program,
    memory: Sequence[Array],
    scales: Sequence[Term | float],
    origin: Array,
) -> Pass:
    """Returns the pass for the samples of a program."""
    plan = program.plan
    at = plan.forward_entries
    regions = Regions([program.arena, *memory])

    def place(a: Array) -> Place:
        position = regions.place(address(a))
        assert position is not None, "all arrays of a step are in its regions"
        return position

    def arguments(names: Sequence[str]) -> list[Argument]:
        return [_argument(plan, n, place(program.array(n))) for n in names]

    # A prediction has no losses.
    scales_of_losses = zip(program.scales, scales, strict=False)
    return Pass(
        least=plan.graph.samples,
        most=plan.graph.samples,
        forward=_rows([bind_masks(program, origin), *chain(*program.runs[:at])], regions),
        backward=_rows(chain(*program.runs[at:]), regions),
        inputs=arguments(plan.inputs),
        targets=arguments(plan.targets),
        scales=[(place(a), scale) for a, scale in scales_of_losses],
        losses=[place(a) for a in program.losses],
        outputs=arguments(plan.outputs),
    )


def _joined(passes: Sequence[Pass]) -> list[Pass]:
    """Joins successive passes whose calls differ only in numbers that grow with the samples."""
    tables = [[*p.forward, *p.backward] for p in passes]
    arguments = [(*p.inputs, *p.targets, *p.outputs) for p in passes]
    layouts = [
        (len(p.forward), *(a.place for a in each), *p.losses, *(at for at, _ in p.scales))
        for p, each in zip(passes, arguments, strict=True)
    ]
    joined = []
    for first, end, rows in grouped(tables, layouts, passes[0].least):
        last = passes[end - 1]
        count = len(last.forward)
        forward, backward = rows[:count], rows[count:]
        joined.append(replace(last, least=passes[first].least, forward=forward, backward=backward))
    return joined


def _argument(plan: Plan, name: str, place: Place) -> Argument:
    """Returns a value of a plan as an argument, with the name of its tensor."""
    value = plan.values[name]
    root = plan.values[plan.root(name)]
    tensor = value.tensor if value.tensor is not None else root.tensor
    return Argument("" if tensor is None else plan.graph.tensors[tensor].name, place, value.spec)


def _first_rate(optimizer: Optimizer) -> float:
    """Returns the learning rate, which a schedule scales."""
    return optimizer.schedule.peak if optimizer.schedule else optimizer.learning_rate


def _rate(schedule: Schedule | None) -> Term:
    """Returns the learning rate of a step as C.

    Raises:
        OptionError: if the schedule needs a number of steps and has none.
    """
    peak = Term("rate")
    count = Term("step") - 1  # updates before the step
    if schedule is None:
        return peak
    computes_with_terms: Any = schedule
    scaled = replace(computes_with_terms, initial_learning_rate=peak)
    warmup = schedule.warmup_steps
    if not warmup:
        return scaled.rate(count)  # type: ignore[no-any-return]
    grown = peak * (count + 1) / warmup
    return chosen(count < warmup, grown, scaled.rate(count - warmup))


def _numbers(parameters: Parameters) -> list[Numbers]:
    """Returns the numbers of updates as terms, for each factor of the learning rate."""
    optimizer = parameters.optimizer
    assert optimizer is not None, "a trainer has one"
    rule: Any = optimizer.rule.compiled  # which computes with terms as with numbers
    numbers = []
    for factor, array in parameters.update_numbers.items():
        rate = Term("now") if factor == 1 else Term("now") * factor
        _, terms = rule(optimizer.attrs, rate, Term("step"))
        numbers.append(Numbers(array, terms))
    average: Any = parameters.average  # which computes with terms, too
    if average.arrays:
        numbers.append(Numbers(average.numbers, [average.share(Term("step"))]))
    return numbers
