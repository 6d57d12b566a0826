"""Tests of learning rates by steps that are undone at the end.

`rate_test` is the range test: the rate grows from step to step. `highest_safe` takes some steps
with each of a few rates, and measures the loss of other samples.

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
from odt.core.training.passes import NotFiniteLossError, unseen
from odt.core.training.snapshot import Snapshot
from odt.core.training.trainer import Trainer

SMOOTHING = 0.9  # weight of the previous values in the moving average of the changes
FIRST = 5  # steps whose rates change nothing yet: with dropout, losses of training are higher
DIVERGED = 4.0  # times the loss of the untouched weights, at which the test ends
CHECKED = (4, 8, 16)  # steps after which the loss of other samples is measured
RISE = 0.02  # of this loss, which no step of a safe rate exceeds


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
    total = 2 * len(parts) - 1  # the last step has no next part, and no loss
    with _restored(trainer), _steps_seen(trainer, total) as seen:
        for part in parts:
            before.append(trainer.evaluate(data, part, rest=True).loss)
            seen()
        for loss in _losses(trainer, data, parts, rates, DIVERGED * float(np.mean(before))):
            losses.append(loss)
            seen()
    # A loss follows each step but the last, until the test ends early.
    changes = [after - loss for after, loss in zip(losses, before[1:], strict=False)]
    offset = float(np.median(changes[:FIRST])) if trainer.info.dropout and changes else 0.0
    return losses, _smoothed([change - offset for change in changes])


def highest_safe(
    trainer: Trainer,
    data: Data,
    probes: SampleOrder,
    parts: Sequence[SampleOrder],
    rates: Sequence[float],
    before: Snapshot,
) -> float:
    """Returns the highest learning rate whose steps do not raise the loss of other samples.

    Args:
        trainer: trainer, whose state is as before in the end.
        data: training samples.
        probes: numbers of the samples whose loss is measured.
        parts: numbers of the samples of each step.
        rates: rates to try, from the highest; the last one is returned if no other is safe.
        before: copy of the current state.
    """
    optimizer = trainer.parameters.optimizer
    assert optimizer is not None
    rate_before = optimizer.learning_rate
    with _steps_seen(trainer, (len(rates) - 1) * len(parts)) as seen:
        loss = trainer.evaluate(data, probes, rest=True).loss

        def is_safe(rate: float) -> bool:
            optimizer.learning_rate = rate
            for k, part in enumerate(parts, 1):
                trainer.step(data, part)
                seen()
                if k in CHECKED or k == len(parts):
                    rise = trainer.evaluate(data, probes, rest=True).loss - loss
                    if not rise <= RISE * abs(loss):
                        return False
            return True

        for rate in rates[:-1]:
            try:
                if is_safe(rate):
                    return rate
            except NotFiniteLossError:
                continue
            finally:
                before.restore()
                optimizer.learning_rate = rate_before
    return rates[-1]


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
        except NotFiniteLossError:
            return
        if k:
            yield loss
            if loss > most:
                return


def _smoothed(values: Sequence[float]) -> list[float]:
    """Exponential moving average without bias towards 0, as Adam's first moment."""
    averages, average = [], 0.0
    for k, value in enumerate(values, 1):
        average = SMOOTHING * average + (1 - SMOOTHING) * value
        averages.append(average / (1 - math.pow(SMOOTHING, k)))
    return averages


@contextmanager
def _steps_seen(trainer: Trainer, total: int) -> Iterator[Callable[[], None]]:
    """Yields a function that reports one more step to the trainer's `seen`; evaluations do not."""
    seen, numbers = trainer.seen, itertools.count(1)
    trainer.seen = unseen
    try:
        yield lambda: seen(next(numbers), total)
    finally:
        trainer.seen = seen


@contextmanager
def _restored(trainer: Trainer) -> Iterator[None]:
    """Restores weights, optimizer state, step and learning rate at the end."""
    optimizer = trainer.parameters.optimizer
    assert optimizer is not None
    before = Snapshot(trainer.parameters)
    rate, schedule = optimizer.learning_rate, optimizer.schedule
    try:
        yield
    finally:
        before.restore()
        optimizer.learning_rate, optimizer.schedule = rate, schedule
