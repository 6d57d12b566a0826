"""The base class of learning rate schedules.

The schedules themselves are in kernels/rows/schedules.py, which is imported when one is used.
"""

import dataclasses
import math
from dataclasses import field, fields, replace
from typing import ClassVar, Self

from odt.errors import OptionError
from odt.kernels.rows.scalars import is_number, plain
from odt.kernels.rows.term import Term

# The minimum and maximum of a field, if they are not 0 and infinity.
LIMITS: dict[str, tuple[float, float]] = {
    "decay_steps": (1, math.inf),
    "t_mul": (1, math.inf),
    "div_factor": (1, math.inf),
    "final_div_factor": (1, math.inf),
    "patience": (1, math.inf),
    "alpha": (0, 1),
    "pct_start": (0, 1),
    "factor": (0, 1),
}
WHOLE = (int, int | None)  # types of fields that are whole numbers; 1e4 is one, too


@dataclasses.dataclass(frozen=True, slots=True)  # users derive by the standard decorator
class Schedule:
    """A learning rate schedule; call it with the number of updates before a step.

    A custom schedule derives from it and defines `rate(step)`.

    Attributes:
        initial_learning_rate: learning rate that the schedule scales; None for the optimizer's.
        decay_steps: length of the schedule in steps; None for the rest of training.
        warmup_steps: number of steps in which the rate grows linearly before the schedule starts.
    """

    word: ClassVar[str] = "custom"
    formula: ClassVar[str] = ""  # for the documentation, in the letters of schedules.py
    portion: ClassVar[int] = 1  # the run's steps divided by the default of decay_steps
    on_plateau: ClassVar[bool] = False  # whether the monitored value changes the rate
    has_length: ClassVar[bool] = True  # whether decay_steps has an effect

    initial_learning_rate: float | None = None
    decay_steps: int | None = None
    warmup_steps: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        for f in fields(self):
            low, high = LIMITS.get(f.name, (0, math.inf))
            value = plain(getattr(self, f.name))
            object.__setattr__(self, f.name, value)
            if isinstance(value, Term) or (value is None and f.default is None):
                continue
            if isinstance(f.default, bool):
                if not isinstance(value, bool):
                    raise OptionError(f.name, "must be True or False", repr(value))
            elif not (is_number(value) and low <= value <= high):
                limit = f"to {high}" if high < math.inf else "up"
                raise OptionError(f.name, f"must be from {low} {limit}", value)
            elif f.type in WHOLE:
                if value != int(value):
                    raise OptionError(f.name, "must be a whole number", value)
                object.__setattr__(self, f.name, int(value))
        if self.decay_steps is not None and not self.has_length:
            rule = f"must be left out for `{self.word}`, which has no length"
            raise OptionError("decay_steps", rule, self.decay_steps)

    def __str__(self) -> str:
        """Returns the text of `schedule=`: the name, and the values that are not defaults."""
        values = [(f, getattr(self, f.name)) for f in fields(self)]
        changes = [f"{f.name}={value}" for f, value in values if value != f.default]
        return f"{self.word}:{','.join(changes)}" if changes else self.word

    def __call__(self, step: int) -> float:
        """Returns the learning rate of the update after `step` updates."""
        if step < self.warmup_steps:
            return self.peak * (step + 1) / self.warmup_steps
        return self.rate(step - self.warmup_steps)

    def rate(self, step: int) -> float:
        """Returns the learning rate `step` updates after the warm-up."""
        return self.peak

    @property
    def peak(self) -> float:
        """The learning rate that the schedule scales.

        Raises:
            OptionError: if it was neither given nor set by `resolve`.
        """
        if self.initial_learning_rate is None:
            raise OptionError("initial_learning_rate", "must be given to call a schedule")
        return self.initial_learning_rate

    @property
    def _length(self) -> int:
        """The length of the schedule in steps.

        Raises:
            OptionError: if it was neither given nor set by `resolve`.
        """
        if self.decay_steps is None:
            raise OptionError(
                "decay_steps", "must be given where the number of steps is not known in advance"
            )
        return self.decay_steps

    def resolve(self, learning_rate: float, steps: int | None = None) -> Self:
        """Returns the schedule with learning rate and length filled in, if they were left out.

        Args:
            learning_rate: the optimizer's learning rate.
            steps: updates of the whole run, including the warm-up; None if unknown.
        """
        peak, length = self.initial_learning_rate, self.decay_steps
        if peak is None:
            peak = learning_rate
        if length is None and steps is not None and self.has_length:
            length = -(-max(steps - self.warmup_steps, 1) // self.portion)
        return replace(self, initial_learning_rate=peak, decay_steps=length)
