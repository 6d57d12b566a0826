"""A training step as plain data: calls over static memory, without the loop of Python."""

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from odt.core.planning.computation import Computation
from odt.core.planning.plan import Call, Plan
from odt.core.runtime.optimizer import Optimizer
from odt.core.runtime.parameters import Parameters, by_name
from odt.core.runtime.program import Program
from odt.core.training.trainer import TRAINING, VALIDATION, Trainer
from odt.dataclass import dataclass
from odt.errors import UnsupportedError
from odt.kernels.native.binding import Calls, Run
from odt.kernels.native.regions import Place, Regions, address
from odt.kernels.native.table import Row, Table
from odt.kernels.rows.opdef import Array, TensorSpec
from odt.kernels.rows.scheduledef import Schedule
from odt.kernels.rows.schedules import IN_C
from odt.kernels.rows.term import Term, chosen


@dataclass(frozen=True, slots=True)
class Argument:
    """An input, target or output of a pass.

    Attributes:
        name: name in the model.
        place: where the pass reads or writes it.
        spec: shape, with the samples of a batch first, and type.
    """

    name: str
    place: Place
    spec: TensorSpec


@dataclass(frozen=True, slots=True)
class Pass:
    """Calls on the samples of a batch.

    Attributes:
        forward: calls up to the losses and outputs.
        backward: calls that compute gradients and update the weights.
        inputs, targets: arrays to fill before.
        scales: place and value of the factor of each loss, to fill before.
        losses: places of the losses, whose sum is the loss of the batch.
        outputs: the model's outputs.
    """

    forward: Sequence[Row]
    backward: Sequence[Row]
    inputs: Sequence[Argument]
    targets: Sequence[Argument]
    scales: Sequence[tuple[Place, float]]
    losses: Sequence[Place]
    outputs: Sequence[Argument]


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights that train, or an array like them.

    Attributes:
        name: of the weights in the model, or what the array is of these weights.
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
        arena: bytes of the arena.
        weights, state: memory regions after the arena, in order.
        sums: further regions, which hold values within a step: gradients until they are clipped.
        numbers: what updates read.
        learning_rate: the initial one.
        rate: the learning rate of a step, of the variables `rate`, which is `learning_rate` at
            first, and `step`.
        train, evaluate, predict: what the program does with a batch.
    """

    batch: int
    arena: int
    weights: Sequence[Weights]
    state: Sequence[Weights]
    sums: Sequence[Weights]
    numbers: Sequence[Numbers]
    learning_rate: float
    rate: Term
    train: Pass
    evaluate: Pass
    predict: Pass

    @property
    def kernels(self) -> frozenset[str]:
        """Names of the kernels that it calls."""
        passes = self.train, self.evaluate, self.predict
        return frozenset(row.name for p in passes for row in (*p.forward, *p.backward))


def step_program(trainer: Trainer, path: str) -> StepProgram:
    """Returns the step of a trainer that was planned with one worker for whole batches.

    Args:
        trainer: the trainer.
        path: path of the model, for messages.

    Raises:
        UnsupportedError: if parts of the step are not compiled; the message lists them.
    """
    training = trainer.runtime.engine_of(TRAINING)
    evaluating = trainer.runtime.engine_of(VALIDATION)
    predicting = trainer.runtime.engine(Computation(outputs=True))
    batch, parameters = training.schedule.batch, trainer.parameters
    programs = [e.programs.program(0, (batch,)) for e in (training, evaluating, predicting)]
    _check(trainer, programs, path)
    arena = max((p.arena for p in programs), key=len)
    weights = list(by_name(trainer.graph, parameters.tensors).items())
    state = [
        (f"{slot} of {name}", a)
        for slot, arrays in parameters.slots.items()
        for name, a in by_name(trainer.graph, arrays).items()
    ]
    sums = [
        (f"gradient of {name}", a)
        for name, a in by_name(trainer.graph, training.sums.sums[0]).items()
    ]
    clipping = training.sums.clip_memory
    sums += [("gradient clipping", clipping)] if clipping.size else []
    regions = Regions([arena, *(a for _, a in (*weights, *state, *sums))])
    scales = training.loss_scales(batch, trainer.info.reduction)
    passes = [_pass(p, regions, scales) for p in programs]
    updates = training.sums.calls_after_step() if sums else []
    passes[0] = replace(passes[0], backward=[*passes[0].backward, *_rows(updates, regions)])
    optimizer = parameters.optimizer
    assert optimizer is not None
    return StepProgram(
        batch,
        len(arena),
        [Weights(*each) for each in weights],
        [Weights(*each) for each in state],
        [Weights(*each) for each in sums],
        _numbers(parameters),
        _first_rate(optimizer),
        _rate(optimizer.schedule),
        *passes,
    )


def _check(trainer: Trainer, programs: Sequence[Program], path: str) -> None:
    """Raises UnsupportedError if the step has parts that are no compiled calls."""
    plan, info, optimizer = programs[0].plan, trainer.info, trainer.parameters.optimizer
    assert optimizer is not None
    options = {
        "a moving average of the weights": bool(info.ema),
        "dropout": bool(plan.masks),
        f"the schedule {info.schedule}": bool(info.schedule) and type(info.schedule) not in IN_C,
        "quantized weights": bool(trainer.parameters.fake_quantized),
        "moving ranges of activations": bool(plan.seen),
        "accumulated gradients": info.accumulate > 1,
        "a filter that trains in part": bool(info.sparse),
        f"the optimizer {info.optimizer}, which is not compiled": optimizer.rule.compiled is None,
    }
    reasons = [name for name, has in options.items() if has]
    for program in programs:
        reasons += [
            f"{entry.label}, which is not compiled"
            for entry in program.plan.entries
            if isinstance(entry, Call) and entry.compiled is None
        ]
    if reasons:
        raise UnsupportedError(
            f"{path}: its training step cannot be a C program, because it has "
            f"{'; '.join(dict.fromkeys(reasons))}."
        )
    assert all(isinstance(run, Calls) for p in programs for runs in p.runs for run in runs)


def _rows(runs: Iterable[Run], regions: Regions) -> list[Row]:
    """Returns the calls of loops as rows of a table."""
    return [*Table([run for run in runs if isinstance(run, Calls)], regions)]


def _pass(program: Program, regions: Regions, scales: Sequence[float]) -> Pass:
    plan, at = program.plan, program.plan.forward_entries

    def place(a: Array) -> Place:
        position = regions.place(address(a))
        assert position is not None, "all arrays of a step are in its regions"
        return position

    def arguments(names: Sequence[str]) -> list[Argument]:
        return [_argument(plan, n, place(program.array(n))) for n in names]

    return Pass(
        _rows(chain(*program.runs[:at]), regions),
        _rows(chain(*program.runs[at:]), regions),
        arguments(plan.inputs),
        arguments(plan.targets),
        # A prediction has no losses.
        [(place(a), s) for a, s in zip(program.scales, scales, strict=False)],
        [place(a) for a in program.losses],
        arguments(plan.outputs),
    )


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
    peak, count = Term("rate"), Term("step") - 1  # updates before the step
    if schedule is None:
        return peak
    computes_with_terms: Any = schedule
    scaled = replace(computes_with_terms, initial_learning_rate=peak)
    warmup = schedule.warmup_steps
    if not warmup:
        return scaled.rate(count)  # type: ignore[no-any-return]
    grown, rest = peak * (count + 1) / warmup, scaled.rate(count - warmup)
    return chosen(count < warmup, grown, rest)


def _numbers(parameters: Parameters) -> list[Numbers]:
    optimizer = parameters.optimizer
    assert optimizer is not None
    rule: Any = optimizer.rule.compiled  # which computes with terms as with numbers
    numbers = []
    for factor, array in parameters.update_numbers.items():
        rate = Term("now") if factor == 1 else Term("now") * factor
        _, terms = rule(optimizer.attrs, rate, Term("step"))
        numbers.append(Numbers(array, terms))
    return numbers
