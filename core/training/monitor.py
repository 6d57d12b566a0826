"""Compares epochs by a monitored value, for the best epoch, early stopping and plateaus."""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeGuard

from odt.core.runtime.optimizer import Optimizer
from odt.errors import OptionError
from odt.kernels.rows.scalars import is_number
from odt.kernels.rows.scheduledef import Schedule

if TYPE_CHECKING:  # the module of a schedule is loaded when a run has one
    from odt.kernels.rows.schedules import ReduceOnPlateau

# Suffixes of the names of values that should fall.
LOWER_IS_BETTER = ("loss", "error", "mae", "mse", "rmse", "perplexity")


class Monitor:
    """Follows one value of the logs and remembers the best.

    Attributes:
        name: name of the value.
        is_max: whether a larger value is better.
        best: best value so far; None before the first.
    """

    def __init__(
        self,
        name: str = "val_loss",
        mode: str = "auto",
        min_delta: float = 0.0,
    ) -> None:
        """Makes a monitor without a value.

        Args:
            name: name of the value, such as val_loss.
            mode: min, max, or auto: min for losses, errors and perplexity, else max.
            min_delta: smallest change that counts as an improvement.

        Raises:
            OptionError: for another mode, or a `min_delta` that is not finite.
        """
        if mode not in ("auto", "min", "max"):
            raise OptionError("mode", "must be auto, min or max", mode)
        if not is_number(min_delta):
            raise OptionError("min_delta", "must be a finite number", min_delta)
        self.is_max = mode == "max" or (mode == "auto" and not name.endswith(LOWER_IS_BETTER))
        self.name, self.min_delta = name, abs(min_delta)
        self.best: float | None = None

    def improves(self, logs: Mapping[str, float]) -> bool:
        """Whether the value in logs is better than the best so far; updates the best.

        Raises:
            OptionError: if logs do not have a value of that name.
        """
        if self.name not in logs:
            raise OptionError(
                "monitor",
                f"must be one of {', '.join(logs)}",
                self.name,
                "Validation values need validation data.",
            )
        value = logs[self.name]
        change = 0.0 if self.best is None else value - self.best
        better = self.best is None or (change if self.is_max else -change) > self.min_delta
        # AUC is not defined for a single class, and a perplexity may be too large for a number.
        better = better and math.isfinite(value)
        if better:
            self.best = value
        return better


def is_on_plateau(schedule: Schedule | None) -> "TypeGuard[ReduceOnPlateau]":
    """Whether a plateau of the monitored value reduces the learning rate."""
    return schedule is not None and schedule.on_plateau


class Plateau:
    """Reduces the learning rate when the monitored value stops improving; see ReduceOnPlateau.

    Attributes:
        state: state for a resume: the best value, the epochs since, the epochs of cooldown left;
            empty before the first finite value.
    """

    def __init__(self, schedule: "ReduceOnPlateau", monitor: str) -> None:
        self._schedule = schedule
        self._monitor = Monitor(monitor, min_delta=schedule.min_delta)
        self._waited = self._cooldown = 0

    @property
    def state(self) -> tuple[float, ...]:
        best = self._monitor.best
        return () if best is None else (best, self._waited, self._cooldown)

    @state.setter
    def state(self, value: tuple[float, ...]) -> None:
        if value:
            self._monitor.best = value[0]
            self._waited, self._cooldown = int(value[1]), int(value[2])

    def see(self, logs: Mapping[str, float], optimizer: Optimizer) -> None:
        """Compares an epoch with earlier ones, and reduces the learning rate after a plateau."""
        self._waited = 0 if self._monitor.improves(logs) else self._waited + 1
        if self._cooldown:
            self._cooldown -= 1
            self._waited = 0
        if self._waited >= self._schedule.patience:
            rate = optimizer.learning_rate * self._schedule.factor
            optimizer.learning_rate = max(rate, self._schedule.min_learning_rate)
            optimizer.schedule = self._schedule.resolve(optimizer.learning_rate)
            self._waited = 0
            self._cooldown = self._schedule.cooldown


def check_monitor(monitor: str, metrics: Iterable[str]) -> None:
    """Raises OptionError unless epochs have a value of that name, given the metrics."""
    names = ("loss", *metrics)
    all_names = (*(f"val_{name}" for name in names), *names)
    if monitor not in all_names:
        raise OptionError(
            "monitor",
            f"must be one of {', '.join(all_names)}",
            monitor,
            "`metrics=` adds further values.",
        )
