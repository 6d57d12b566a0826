"""Learning rate schedules: the learning rate of a step by its number.

In the formulas of the classes, r is the schedule's learning rate, t counts updates from 0, and D is
`decay_steps`. A linear warm-up of W steps precedes each schedule: the rate is r (t + 1) / W for
t < W, and after it, t counts from the end of the warm-up.

Sources: Keras' schedules of the same names for exponential, polynomial and cosine; Loshchilov and
Hutter 2017 for cosine and its restarts; torch's StepLR, LinearLR and OneCycleLR (Smith and Topin
2018), whose momentum stays constant here.
"""

import dataclasses
import math
from dataclasses import field, fields, replace
from typing import Any, ClassVar, Self

from odt.dataclass import dataclass
from odt.errors import OptionError

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
    formula: ClassVar[str] = ""  # for the documentation; other names are options
    portion: ClassVar[int] = 1  # the run's steps divided by the default of decay_steps

    initial_learning_rate: float | None = None
    decay_steps: int | None = None
    warmup_steps: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        for f in fields(self):
            low, high = LIMITS.get(f.name, (0, math.inf))
            value = getattr(self, f.name)
            if value is not None and not (low <= value <= high and value < math.inf):
                limit = f"to {high}" if high < math.inf else "up"
                raise OptionError(f.name, f"must be from {low} {limit}", value)

    def __str__(self) -> str:
        """Returns the text of `schedule=`: the name, and the values that are not defaults."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        given = [f"{f.name}={values[f.name]}" for f in fields(self) if values[f.name] != f.default]
        return f"{self.word}:{','.join(given)}" if given else self.word

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
        given = self.initial_learning_rate
        rest = None if steps is None else max(steps - self.warmup_steps, 1)
        length = rest and -(-rest // self.portion)
        return replace(
            self,
            initial_learning_rate=learning_rate if given is None else given,
            decay_steps=length if self.decay_steps is None else self.decay_steps,
        )


@dataclass(frozen=True, slots=True)
class ConstantRate(Schedule):
    """A constant learning rate, after the warm-up."""

    word: ClassVar[str] = "constant"
    formula: ClassVar[str] = "r"


@dataclass(frozen=True, slots=True)
class StepDecay(Schedule):
    """Step decay: multiplies the rate by `decay_rate` after every `decay_steps` steps.

    Attributes:
        initial_learning_rate: learning rate of the first step; None for the optimizer's.
        decay_steps: steps between two changes; None for a third of training.
        warmup_steps: steps of linear warm-up.
        decay_rate: factor of each change.
    """

    word: ClassVar[str] = "step"
    formula: ClassVar[str] = "r · decay_rate^⌊t / D⌋"
    portion: ClassVar[int] = 3
    decay_rate: float = 0.1

    def rate(self, step: int) -> float:
        """Returns the learning rate `step` updates after the warm-up."""
        return self.peak * self.decay_rate ** (step // self._length)


@dataclass(frozen=True, slots=True)
class ExponentialDecay(Schedule):
    """Exponential decay: multiplies the rate by decay_rate^(step / decay_steps), as in Keras.

    Attributes:
        initial_learning_rate: learning rate of the first step; None for the optimizer's.
        decay_steps: steps in which the rate falls to `decay_rate` times the initial rate; None for
            all of training.
        warmup_steps: steps of linear warm-up.
        decay_rate: factor of the rate after `decay_steps` steps.
        staircase: whether the rate changes only every `decay_steps` steps.
    """

    word: ClassVar[str] = "exponential"
    formula: ClassVar[str] = "r · decay_rate^(t / D); with staircase=true as step"
    decay_rate: float = 0.1
    staircase: bool = False

    def rate(self, step: int) -> float:
        """Returns the learning rate `step` updates after the warm-up."""
        power = step // self._length if self.staircase else step / self._length
        return float(self.peak * self.decay_rate**power)


@dataclass(frozen=True, slots=True)
class PolynomialDecay(Schedule):
    """Polynomial decay to `end_learning_rate`, linear with power 1, as in Keras.

    Attributes:
        initial_learning_rate: learning rate of the first step; None for the optimizer's.
        decay_steps: steps until `end_learning_rate`; None for all of training.
        warmup_steps: steps of linear warm-up.
        end_learning_rate: learning rate from the end of the decay on.
        power: exponent of the polynomial.
    """

    word: ClassVar[str] = "polynomial"
    formula: ClassVar[str] = "e + (r − e) (1 − min(t, D) / D)^power, e = end_learning_rate"
    end_learning_rate: float = 0.0
    power: float = 1.0

    def rate(self, step: int) -> float:
        """Returns the learning rate `step` updates after the warm-up."""
        left = 1 - min(step, self._length) / self._length
        return float((self.peak - self.end_learning_rate) * left**self.power) + (
            self.end_learning_rate
        )


@dataclass(frozen=True, slots=True)
class CosineDecay(Schedule):
    """Cosine decay to `alpha` times the initial rate, as in Keras.

    Attributes:
        initial_learning_rate: learning rate of the first step; None for the optimizer's.
        decay_steps: steps until the lowest rate; None for all of training.
        warmup_steps: steps of linear warm-up.
        alpha: lowest rate, as a fraction of the initial rate.
    """

    word: ClassVar[str] = "cosine"
    formula: ClassVar[str] = "r (alpha + (1 − alpha) (1 + cos(π min(t, D) / D)) / 2)"
    alpha: float = 0.0

    def rate(self, step: int) -> float:
        """Returns the learning rate `step` updates after the warm-up."""
        return self.peak * half_cosine(1.0, self.alpha, min(step, self._length) / self._length)


@dataclass(frozen=True, slots=True)
class CosineDecayRestarts(Schedule):
    """Cosine decay with warm restarts, as in Keras.

    Attributes:
        initial_learning_rate: learning rate of the first step; None for the optimizer's.
        decay_steps: steps of the first period; None for a seventh of training, which gives three
            periods.
        warmup_steps: steps of linear warm-up.
        t_mul: factor of the length from each period to the next.
        m_mul: factor of the initial rate from each period to the next.
        alpha: lowest rate, as a fraction of the initial rate.
    """

    word: ClassVar[str] = "cosine_restarts"
    formula: ClassVar[str] = (
        "as cosine, over periods of D, D · t_mul, D · t_mul², … steps; "
        "period k begins at r · m_mul^k"
    )
    portion: ClassVar[int] = 7
    t_mul: float = 2.0
    m_mul: float = 1.0
    alpha: float = 0.0

    def rate(self, step: int) -> float:
        """Returns the learning rate `step` updates after the warm-up."""
        period, start, at = float(self._length), 1.0, float(step)
        if self.t_mul == 1:
            start, at = self.m_mul ** (at // period), at % period
        while at >= period:
            at, period, start = at - period, period * self.t_mul, start * self.m_mul
        return self.peak * (
            half_cosine(1.0, 0.0, at / period) * (1 - self.alpha) * start + self.alpha
        )


@dataclass(frozen=True, slots=True)
class OneCycle(Schedule):
    """One cycle of cosine annealing: up to `initial_learning_rate`, then down to nearly zero.

    Attributes:
        initial_learning_rate: the highest rate; None for the optimizer's.
        decay_steps: steps of the cycle; None for all of training.
        warmup_steps: steps of linear warm-up before the cycle, which has a warm-up of its own.
        pct_start: fraction of the cycle in which the rate grows.
        div_factor: highest rate divided by the first rate.
        final_div_factor: first rate divided by the last rate.
    """

    word: ClassVar[str] = "one_cycle"
    formula: ClassVar[str] = (
        "along a cosine from r / div_factor to r in the first pct_start · D steps, "
        "then to r / (div_factor · final_div_factor)"
    )
    pct_start: float = 0.3
    div_factor: float = 25.0
    final_div_factor: float = 1e4

    def rate(self, step: int) -> float:
        """Returns the learning rate `step` updates after the warm-up."""
        last = self._length - 1
        top = max(self.pct_start * self._length - 1, 0.0)
        at = min(step, last)
        first = self.peak / self.div_factor
        if at <= top:
            return half_cosine(first, self.peak, at / top if top else 1.0)
        return half_cosine(
            self.peak, first / self.final_div_factor, (at - top) / max(last - top, 1)
        )


@dataclass(frozen=True, slots=True)
class ReduceOnPlateau(Schedule):
    """Multiplies the rate by `factor` after `patience` epochs without an improvement.

    The trainer's `monitor` selects the value that should improve; the default is val_loss.
    Source: torch's ReduceLROnPlateau; patience counts as in Keras, one less than in torch.

    Attributes:
        initial_learning_rate: learning rate of the first step; None for the optimizer's.
        decay_steps: ignored.
        warmup_steps: steps of linear warm-up.
        factor: factor of each reduction, below 1.
        patience: epochs without improvement before a reduction.
        min_delta: smallest change that counts as an improvement.
        cooldown: epochs after a reduction in which no epoch counts towards `patience`.
        min_learning_rate: the lowest rate.
    """

    word: ClassVar[str] = "plateau"
    formula: ClassVar[str] = "r, times factor after patience epochs without an improvement"
    factor: float = 0.1
    patience: int = 10
    min_delta: float = 1e-4
    cooldown: int = 0
    min_learning_rate: float = 0.0


def half_cosine(start: float, end: float, done: float) -> float:
    """Interpolates from start to end along half a period of a cosine; `done` goes from 0 to 1."""
    return end + (start - end) * (1 + math.cos(math.pi * done)) / 2


SCHEDULES: dict[str, type[Schedule]] = {
    kind.word: kind
    for kind in (
        *(ConstantRate, StepDecay, ExponentialDecay, PolynomialDecay),
        *(CosineDecay, CosineDecayRestarts, OneCycle, ReduceOnPlateau),
    )
}


def parse_schedule(text: str) -> Schedule:
    """Parses a schedule as on the command line: NAME or NAME:OPTION=VALUE,OPTION=VALUE.

    Raises:
        OptionError: if there is no such schedule or option, or a value is invalid.
    """
    word, _, rest = text.strip().lower().replace("-", "_").partition(":")
    kind = SCHEDULES.get(word)
    if kind is None:
        known = ", ".join(f"`{word}`" for word in SCHEDULES)
        raise OptionError("schedule", f"must be one of {known}", text)
    types = {f.name: f.type for f in fields(kind)}
    values: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in types:
            names = ", ".join(f"`{name}`" for name in types)
            raise OptionError("schedule", f"`{kind.word}` has {names}", name)
        values[name] = _value(name, types[name], value)
    return kind(**values)


def _value(name: str, kind: Any, text: str) -> float | bool:
    if kind is bool and text in ("true", "false"):
        return text == "true"
    try:
        return int(text) if kind in (int, int | None) else float(text)
    except ValueError:
        word = {bool: "true or false", float: "a number"}.get(kind, "a whole number")
        raise OptionError(name, f"must be {word}", text) from None
