"""Learning rate range test: steps with a growing learning rate, undone at the end.

Source: Smith, Cyclical Learning Rates for Training Neural Networks (2017), with rates that grow
exponentially. Batches differ in difficulty, which hides the effect of small rates: here the loss of
a batch is compared with its loss under the weights as they were.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from odt.core.data.protocol import Data, SampleOrder
from odt.core.runtime.arena import copy_arrays
from odt.core.training.passes import unseen
from odt.core.training.trainer import Trainer
from odt.errors import TrainingError

SMOOTHING = 0.9  # weight of the previous values in the moving average of the changes
FIRST = 5  # steps whose rates change nothing yet: with dropout, losses of training are higher
DIVERGED = 4.0  # times the loss of the untouched weights, at which the test ends


def rate_test(
    trainer: Trainer, data: Data, parts: Sequence[SampleOrder], rates: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Trains with a growing learning rate, and restores weights and optimizer state.

    Args:
        trainer: trainer, whose state is as before in the end.
        data: training samples.
        parts: numbers of the samples of each step: one more step than there are rates.
        rates: learning rate of each step.

    Returns:
        The loss of the next part after each step, and its difference from that of the untouched
        weights, smoothed. Both end where the loss is not finite or too large.
    """
    before, losses = [], []
    with _restored(trainer), _steps_seen(trainer, 2 * len(parts)) as seen:
        for part in parts:
            before.append(trainer.evaluate(data, part, rest=True).loss)
            seen()
        for loss in _losses(trainer, data, parts, rates, DIVERGED * float(np.mean(before))):
            losses.append(loss)
            seen()
    changes = [loss - b for loss, b in zip(losses, before[1:], strict=False)]
    offset = float(np.median(changes[:FIRST])) if trainer.info.dropout and changes else 0.0
    return losses, _smoothed([change - offset for change in changes])


def _losses(
    trainer: Trainer,
    data: Data,
    parts: Sequence[SampleOrder],
    rates: Sequence[float],
    most: float,
) -> Iterator[float]:
    """Yields the loss after each step; ends when it is not finite or above `most`."""
    optimizer = trainer.parameters.optimizer
    assert optimizer is not None
    optimizer.schedule = None
    for k, part in enumerate(parts):
        optimizer.learning_rate = rates[min(k, len(rates) - 1)]
        try:
            loss = trainer.step(data, part)
        except TrainingError:
            return
        if k:
            yield loss
            if loss > most:
                return


def _smoothed(values: Sequence[float]) -> list[float]:
    """Exponential moving average without bias towards 0, as Adam's first moment."""
    found, average = [], 0.0
    for k, value in enumerate(values, 1):
        average = SMOOTHING * average + (1 - SMOOTHING) * value
        found.append(average / (1 - math.pow(SMOOTHING, k)))
    return found


@contextmanager
def _steps_seen(trainer: Trainer, total: int) -> Iterator[Callable[[], None]]:
    """A function that tells `seen` of the trainer one more step; evaluations do not, meanwhile."""
    seen, numbers = trainer.seen, itertools.count(1)
    trainer.seen = unseen
    try:
        yield lambda: seen(next(numbers), total)
    finally:
        trainer.seen = seen


@contextmanager
def _restored(trainer: Trainer) -> Iterator[None]:
    """Restores weights, optimizer state, step and learning rate at the end."""
    parameters, optimizer = trainer.parameters, trainer.parameters.optimizer
    assert optimizer is not None
    averages, ranges = parameters.average.arrays, parameters.ranges.ends
    groups = (parameters.tensors, parameters.trained, averages, ranges)
    arrays = [a for group in (*groups, *parameters.slots.values()) for a in group.values()]
    saved = copy_arrays(dict(enumerate(arrays)))
    step, rate, schedule = parameters.step, optimizer.learning_rate, optimizer.schedule
    try:
        yield
    finally:
        for a, copy in zip(arrays, saved.values(), strict=True):
            np.copyto(a, copy)
        parameters.step = step
        optimizer.learning_rate, optimizer.schedule = rate, schedule
