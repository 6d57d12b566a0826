"""Learning rate schedules: the learning rate of a step by its number.

t counts updates from 0, r is the schedule's learning rate, W its warm-up, and D its decay steps:

linear warm-up        r (t + 1) / W for t < W; what follows counts t from the end of the warm-up
constant, plateau     r
step                  r γ^⌊t / D⌋                                            decay_rate γ
exponential           r γ^(t / D); with staircase as step
polynomial            (r − e) (1 − min(t, D) / D)^k + e         end_learning_rate e, power k
cosine                r ((1 − α) (1 + cos π u) / 2 + α), u = min(t, D) / D
cosine-restarts       cosine over periods of D, D τ, D τ², …; the k-th with μᵏ   t_mul τ, m_mul μ
one-cycle             cosine from r / a up to r at t = p D − 1, then down to r / (a b) at D − 1

Sources: Keras' schedules of the same names for exponential, polynomial and cosine; Loshchilov and
Hutter 2017 for cosine and its restarts; torch's StepLR, LinearLR and OneCycleLR (Smith and Topin
2018), whose momentum stays constant here.
"""

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


@dataclass(frozen=True, slots=True)
class Schedule:
    """A learning rate for each step; call it with the number of updates before the step.

    Derive from it, with a method `rate(step)`, for a schedule of your own.

    Attributes:
        initial_learning_rate: rate that is scaled; None for the optimizer's.
        decay_steps: length of the schedule in steps; None for the rest of training.
        warmup_steps: steps before the schedule, in which the rate grows linearly.
    """

    word: ClassVar[str] = "custom"
    portion: ClassVar[int] = 1  # what decay_steps are of the whole run, as its reciprocal

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
        """As on the command line: the name and the values that are not the defaults."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        given = [f"{f.name}={values[f.name]}" for f in fields(self) if values[f.name] != f.default]
        return f"{self.word}:{','.join(given)}" if given else self.word

    def __call__(self, step: int) -> float:
        """The learning rate of the update after `step` updates."""
        if step < self.warmup_steps:
            return self.peak * (step + 1) / self.warmup_steps
        return self.rate(step - self.warmup_steps)

    def rate(self, step: int) -> float:
        """The learning rate `step` updates after the warm-up."""
        return self.peak

    @property
    def peak(self) -> float:
        """The learning rate that is scaled.

        Raises:
            OptionError: if it is neither given nor known yet.
        """
        if self.initial_learning_rate is None:
            raise OptionError("initial_learning_rate", "must be given to call a schedule")
        return self.initial_learning_rate

    @property
    def _length(self) -> int:
        """The steps of the schedule.

        Raises:
            OptionError: if they are neither given nor known yet.
        """
        if self.decay_steps is None:
            raise OptionError(
                "decay_steps", "must be given where the number of steps is not known in advance"
            )
        return self.decay_steps

    def resolve(self, learning_rate: float, steps: int | None = None) -> Self:
        """The schedule with what it leaves open.

        Args:
            learning_rate: the optimizer's.
            steps: updates of the whole run, warm-up included; None if not known.
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


@dataclass(frozen=True, slots=True)
class StepDecay(Schedule):
    """The rate times `decay_rate` after every `decay_steps` steps.

    Attributes:
        initial_learning_rate: at first; None for the optimizer's.
        decay_steps: steps between two changes; None for a third of training.
        warmup_steps: steps of linear warm-up.
        decay_rate: factor of each change.
    """

    word: ClassVar[str] = "step"
    portion: ClassVar[int] = 3
    decay_rate: float = 0.1

    def rate(self, step: int) -> float:
        """The learning rate `step` updates after the warm-up."""
        return self.peak * self.decay_rate ** (step // self._length)


@dataclass(frozen=True, slots=True)
class ExponentialDecay(Schedule):
    """The rate times decay_rate^(step / decay_steps), as in Keras.

    Attributes:
        initial_learning_rate: at first; None for the optimizer's.
        decay_steps: steps after which the rate is `decay_rate` of the initial one; None for all of
            training.
        warmup_steps: steps of linear warm-up.
        decay_rate: factor of `decay_steps` steps.
        staircase: whether the rate changes only every `decay_steps` steps.
    """

    word: ClassVar[str] = "exponential"
    decay_rate: float = 0.1
    staircase: bool = False

    def rate(self, step: int) -> float:
        """The learning rate `step` updates after the warm-up."""
        power = step // self._length if self.staircase else step / self._length
        return float(self.peak * self.decay_rate**power)


@dataclass(frozen=True, slots=True)
class PolynomialDecay(Schedule):
    """Polynomial decay to `end_learning_rate`, linear with power 1, as in Keras.

    Attributes:
        initial_learning_rate: at first; None for the optimizer's.
        decay_steps: steps until `end_learning_rate`; None for all of training.
        warmup_steps: steps of linear warm-up.
        end_learning_rate: at the end and after it.
        power: of the polynomial.
    """

    word: ClassVar[str] = "polynomial"
    end_learning_rate: float = 0.0
    power: float = 1.0

    def rate(self, step: int) -> float:
        """The learning rate `step` updates after the warm-up."""
        left = 1 - min(step, self._length) / self._length
        return float((self.peak - self.end_learning_rate) * left**self.power) + (
            self.end_learning_rate
        )


@dataclass(frozen=True, slots=True)
class CosineDecay(Schedule):
    """Cosine decay to `alpha` times the initial rate, as in Keras.

    Attributes:
        initial_learning_rate: at first; None for the optimizer's.
        decay_steps: steps until the lowest rate; None for all of training.
        warmup_steps: steps of linear warm-up.
        alpha: lowest rate, as a fraction of the initial one.
    """

    word: ClassVar[str] = "cosine"
    alpha: float = 0.0

    def rate(self, step: int) -> float:
        """The learning rate `step` updates after the warm-up."""
        return self.peak * half_cosine(1.0, self.alpha, min(step, self._length) / self._length)


@dataclass(frozen=True, slots=True)
class CosineDecayRestarts(Schedule):
    """Cosine decay with warm restarts, as in Keras.

    Attributes:
        initial_learning_rate: at first; None for the optimizer's.
        decay_steps: steps of the first period; None for a seventh of training, three periods.
        warmup_steps: steps of linear warm-up.
        t_mul: length of a period by that of the one before.
        m_mul: first rate of a period by that of the one before.
        alpha: lowest rate, as a fraction of the initial one.
    """

    word: ClassVar[str] = "cosine_restarts"
    portion: ClassVar[int] = 7
    t_mul: float = 2.0
    m_mul: float = 1.0
    alpha: float = 0.0

    def rate(self, step: int) -> float:
        """The learning rate `step` updates after the warm-up."""
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
        warmup_steps: steps of linear warm-up before the cycle, which has its own.
        pct_start: fraction of the cycle in which the rate grows.
        div_factor: the highest rate by the first.
        final_div_factor: the first rate by the last.
    """

    word: ClassVar[str] = "one_cycle"
    pct_start: float = 0.3
    div_factor: float = 25.0
    final_div_factor: float = 1e4

    def rate(self, step: int) -> float:
        """The learning rate `step` updates after the warm-up."""
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
    """The rate times `factor` after `patience` epochs without improvement.

    The value that improves is the one that `fit` monitors, val_loss unless `monitor` names another.
    Source: torch's ReduceLROnPlateau; patience counts as in Keras, one less than in torch.

    Attributes:
        initial_learning_rate: at first; None for the optimizer's.
        decay_steps: of no effect.
        warmup_steps: steps of linear warm-up.
        factor: of each reduction, below 1.
        patience: epochs without improvement before a reduction.
        min_delta: smallest change that counts as an improvement.
        cooldown: epochs after a reduction that do not count.
        min_learning_rate: the lowest rate.
    """

    word: ClassVar[str] = "plateau"
    factor: float = 0.1
    patience: int = 10
    min_delta: float = 1e-4
    cooldown: int = 0
    min_learning_rate: float = 0.0


def half_cosine(start: float, end: float, done: float) -> float:
    """From start to end along half a period of a cosine, `done` from 0 to 1."""
    return end + (start - end) * (1 + math.cos(math.pi * done)) / 2


SCHEDULES: dict[str, type[Schedule]] = {
    kind.word: kind
    for kind in (
        *(ConstantRate, StepDecay, ExponentialDecay, PolynomialDecay),
        *(CosineDecay, CosineDecayRestarts, OneCycle, ReduceOnPlateau),
    )
}


def parse_schedule(text: str) -> Schedule:
    """Parses a schedule as on the command line: NAME or NAME:FIELD=VALUE,FIELD=VALUE.

    Raises:
        OptionError: if there is no such schedule or field, or a value is not possible.
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
