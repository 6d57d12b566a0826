"""Time of a training run, from some of its steps, which run on this machine."""

import math
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from odt.core.data.dataset import DataSet, EpochOrder
from odt.core.data.protocol import Data, SampleOrder, scales_of
from odt.core.recipe.sample_specs import SampleSpecs
from odt.core.training import trainer as engine
from odt.core.training.random_data import random_data
from odt.core.training.watch import Watch
from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array
from odt.text import quantity
from odt.training.default_rate import MAX_PROBES, NEW, STEPS, constant_loss
from odt.training.fitting import UNTRAINED
from odt.training.trainer import Trainer

HERE = "measured here"
# Seconds for which training steps, evaluation, and frozen layers are measured: 2 in all.
TRAINING, EVALUATION, FROZEN = 1.0, 0.5, 0.5
# Seconds that `fit` and its callbacks take for each step and for each epoch, beside the engine.
STEP, EPOCH = 4e-6, 0.15e-3
CHECKS = 3  # evaluations of the probes while a default learning rate is tried
# Unit, number of seconds below which it is used, and its length in seconds.
UNITS = (("ms", 0.1, 0.001), ("s", 100, 1), ("min", 6000, 60), ("h", math.inf, 3600))
Clock = Callable[[], float]


def about(seconds: float) -> str:
    """Formats an estimated time with two digits: 26 ms, 0.42 s, 40 s, 12 min."""
    unit, scale = next((unit, scale) for unit, limit, scale in UNITS if seconds < limit)
    value = seconds / scale
    digits = 2
    if value >= 1:
        digits = 0 if value >= 10 else 1
    return f"{value:.{digits}f} {unit}"


@dataclass(frozen=True, slots=True)
class RunTime:
    """Time of a training run in seconds; printed, it is a line of `odt plan`.

    Attributes:
        start: before the first epoch: reading, planning, the results of epoch 0, and the choice of
            a default learning rate.
        first_epoch: the first epoch with its validation; with `cache_frozen`, it computes the
            frozen layers.
        epoch: each later epoch.
        step: a step of training in later epochs.
        epochs: number of epochs.
        at_most: whether the run may stop early.
        basis: where the times come from: "measured here", or the board and whether its rates are
            measured or estimated.
    """

    start: float
    first_epoch: float
    epoch: float
    step: float
    epochs: int
    at_most: bool
    basis: str

    @property
    def total(self) -> float:
        """Seconds of the whole run."""
        if not self.epochs:
            return self.start
        return self.start + self.first_epoch + (self.epochs - 1) * self.epoch

    def __str__(self) -> str:
        """Returns a line such as: Takes about 40 s: 20 epochs of 1.9 s, measured here."""
        later = self.epochs
        parts = []
        if self.epochs > 1 and self.first_epoch > 1.1 * self.epoch:
            parts.append(f"the first epoch {about(self.first_epoch)}")
            later -= 1
        parts.append(f"{quantity(later, 'epoch')} of {about(self.epoch)}")
        most = "at most " if self.at_most else ""
        total = about(self.total)
        return f"Takes {most}about {total}: {', then '.join(parts)}, {self.basis}."


class RunSize(NamedTuple):
    """Samples and epochs of a run.

    Attributes:
        training, validation: numbers of samples.
        epochs: number of epochs.
        stops_early: whether the run may end before the last epoch.
        untrained: most training samples of epoch 0.
    """

    training: int
    validation: int
    epochs: int
    stops_early: bool
    untrained: int = UNTRAINED

    @property
    def samples(self) -> int:
        """Samples for training and validation."""
        return self.training + self.validation


class Costs(NamedTuple):
    """Seconds of the parts of a run.

    Attributes:
        step: of a step of training with a whole batch.
        sample: of the evaluation of a sample in validation.
        frozen: of the frozen layers for a sample that is cached; 0 without a cache.
    """

    step: float
    sample: float
    frozen: float


class Tuning(Enum):
    """What `fit` does if no learning rate is given."""

    NOTHING = "a rate is given"
    JUDGES = "a model that has learned nothing: each epoch is judged by some training samples"
    CHOOSES = "some steps choose the rate"


def run_time(
    size: RunSize, costs: Costs, batch: int, *, opened: float, fine_tunes: Tuning, basis: str
) -> RunTime:
    """Adds up the time of a run.

    Args:
        size: samples and epochs.
        costs: seconds of its parts.
        batch: samples of a step.
        opened: seconds of reading and planning.
        fine_tunes: what `fit` does for a default learning rate.
        basis: where the times come from.
    """
    steps = max(size.training / batch, 1.0)
    untrained = min(size.training, size.untrained) * costs.sample
    epoch = steps * (costs.step + STEP) + size.validation * costs.sample + EPOCH
    if fine_tunes is Tuning.JUDGES and not size.validation:
        epoch += untrained
    start = opened
    if size.epochs:
        start += untrained + size.validation * costs.sample
    if size.epochs and fine_tunes is Tuning.CHOOSES:
        probes = min(MAX_PROBES, size.training // 2)
        tries = min(STEPS, steps * size.epochs)
        start += tries * costs.step + (1 + CHECKS) * probes * costs.sample
    first = epoch + size.samples * costs.frozen
    return RunTime(start, first, epoch, costs.step, size.epochs, size.stops_early, basis)


def measured_time(
    trainer: Trainer,
    data: DataSet | None,
    size: RunSize,
    opened: float,
    clock: Clock = time.perf_counter,
) -> RunTime:
    """Measures steps, evaluation and frozen layers for at most 2 seconds, or once.

    Args:
        trainer: a trainer with the options of the run, which is of no use afterwards: its learning
            rate is 0.
        data: samples of the run; None for random ones.
        size: samples and epochs.
        opened: seconds in which the model was read.
        clock: function that returns seconds.

    Raises:
        DataError: if data holds values that no loss can use.
        TrainingError: if the loss is not finite.
    """
    before = clock()
    session = trainer.session
    core = session.build(size.samples, scales=scales_of(data.weights if data else None))
    opened += clock() - before
    assert core.parameters.optimizer is not None, "a trainer has one"
    core.parameters.optimizer.learning_rate = 0.0  # the weights stay as they are
    batch = core.info.step_samples
    samples = data or Repeated(session.samples, min(size.samples, 2 * batch))
    order = EpochOrder(range(size.training), shuffle=True).order(1)
    numbers = np.asarray(order)[: max(size.training // batch, 1) * batch]
    if core.caches:
        parts = [range(size.samples)]
        with core.frozen(samples, samples.without_inputs(), parts) as cache:
            cached, frozen = _fill(core, cache, size.training, clock)
            numbers = np.resize(cached, max(len(cached) // batch, 1) * batch)
            costs = _costs(trainer, core, cache, numbers, cached, clock, frozen=frozen)
            tuning = _tuning(trainer, core, data, cache, cached)
    else:
        costs = _costs(trainer, core, samples, numbers, order, clock)
        tuning = _tuning(trainer, core, data, samples, numbers)
    return run_time(size, costs, batch, opened=opened, fine_tunes=tuning, basis=HERE)


def _costs(
    trainer: Trainer,
    core: engine.Trainer,
    data: Data,
    training: Any,
    evaluated: Any,
    clock: Clock,
    *,
    frozen: float = 0.0,
) -> Costs:
    """Measures training steps and evaluation; returns them with the time of frozen layers.

    Args:
        trainer: the trainer.
        core: its engine.
        data: what training reads.
        training: numbers of samples that train, several batches.
        evaluated: numbers of samples to evaluate.
        clock: function that returns seconds.
        frozen: seconds of the frozen layers for a sample; 0 without a cache.
    """
    watch = _Steps(TRAINING, clock)
    order = EpochOrder(training, drop_last=False)
    for _ in core.train(data, order, epochs=10**9, watch=watch, drop_last=False):
        pass  # until `watch` stops it
    return Costs(watch.seconds, _evaluation(trainer, core, data, evaluated, clock), frozen)


def _evaluation(
    trainer: Trainer, core: engine.Trainer, data: Data, numbers: Any, clock: Clock
) -> float:
    """Returns the seconds of a sample in validation; the first batch binds programs."""
    batch = core.info.batch_size
    numbers = numbers[: max(len(numbers) // batch, 1) * batch]
    seconds = 0.0
    samples = 0
    # The first batch runs twice; the first time, it is not measured.
    for at in range(-batch, len(numbers), batch):
        part = numbers[max(at, 0) : max(at, 0) + batch]
        before = clock()
        trainer.evaluation.validate(data, part, rest=True)
        if at >= 0:
            seconds += clock() - before
            samples += len(part)
        if seconds > EVALUATION:
            break
    return seconds / samples


def _fill(core: engine.Trainer, cache: Any, samples: int, clock: Clock) -> tuple[Array, float]:
    """Caches some samples; returns their numbers, and the seconds of the frozen layers for one."""
    batch = core.info.batch_size
    seconds = 0.0
    done = 0
    warm = min(batch, samples)
    core.evaluate(cache, range(warm), rest=True)  # binds programs
    begun = clock()
    for first in range(warm, samples, batch):
        part = range(first, min(first + batch, samples))
        before = clock()
        core.evaluate(cache, part, rest=True)
        between = clock()
        core.evaluate(cache, part, rest=True)  # this time from the cache
        after = clock()
        seconds += max((between - before) - (after - between), 0.0)
        done += len(part)
        if after - begun > FROZEN:
            break
    return np.arange(warm + done), seconds / done if done else 0.0


def _tuning(
    trainer: Trainer, core: engine.Trainer, data: DataSet | None, source: Data, numbers: Any
) -> Tuning:
    """Returns what `fit` will do for a default learning rate; a guess without samples.

    Args:
        trainer: the trainer.
        core: its engine.
        data: samples of the run, if they are known.
        source: what training reads.
        numbers: numbers of samples that train.
    """
    if not trainer.session.rate_is_default:
        return Tuning.NOTHING
    if data is None:
        return Tuning.CHOOSES
    some: Any = np.asarray(numbers)[: core.info.batch_size]
    loss = core.evaluate(source, some, rest=True).loss
    constant = constant_loss(data, some, trainer.session.samples.losses)
    return Tuning.JUDGES if loss >= NEW * constant else Tuning.CHOOSES


class _Steps(Watch):
    """Ends training after some seconds; measures its steps."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._clock = clock
        self._seconds = seconds
        self._times = [clock()]

    def step(self, epoch: int, step: int, loss: float) -> None:
        self._times.append(self._clock())

    def stop(self) -> bool:
        return self._times[-1] - self._times[0] > self._seconds

    @property
    def seconds(self) -> float:
        """Seconds of a step; without the first one, which touches memory, if there are others."""
        first = 1 if len(self._times) > 2 else 0
        return (self._times[-1] - self._times[first]) / (len(self._times) - 1 - first)


class Repeated:
    """A few random samples in memory that stand for the samples of a run."""

    def __init__(self, specs: SampleSpecs, count: int) -> None:
        """Draws the samples.

        Args:
            specs: specs of a sample.
            count: number of different samples.
        """
        random = random_data(specs, 0)
        self.weights = None
        self._count = count
        self._inputs = [np.empty((count, s.size), s.dtype) for s in random.inputs]
        self._targets = [np.empty((count, s.size), s.dtype) for s in random.targets]
        random.read(range(count), self._inputs, self._targets)

    def without_inputs(self) -> "Repeated":
        """Returns the samples themselves: `read` leaves out inputs that have no array."""
        return self

    def read(self, samples: SampleOrder, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """Reads samples into the arrays, one row each."""
        rows = np.asarray(samples) % self._count
        # No arrays of inputs are given to read targets alone, and no targets to read inputs alone.
        columns = (
            *zip(self._inputs, inputs, strict=False),
            *zip(self._targets, targets, strict=False),
        )
        for values, out in columns:
            np.copyto(out, values[rows].reshape(out.shape, copy=False))
