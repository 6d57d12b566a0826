"""Learning rate schedules: the learning rate of a step by its number.

In the formulas of the classes, r is the schedule's learning rate, t counts updates from 0, and D is
`decay_steps`. A linear warm-up of W steps precedes each schedule: the rate is r (t + 1) / W for
t < W, and after it, t counts from the end of the warm-up.

Sources: Keras' schedules of the same names for exponential, polynomial and cosine; Loshchilov and
Hutter 2017 for cosine and its restarts; torch's StepLR, LinearLR and OneCycleLR (Smith and Topin
2018), whose momentum stays constant here.

With terms for the learning rate and the step, `rate` of the classes in `IN_C` returns C code.
"""

import math
from typing import ClassVar

from odt.dataclass import dataclass
from odt.kernels.rows.scheduledef import Schedule
from odt.kernels.rows.term import chosen, cosine


@dataclass(frozen=True, slots=True)
class ConstantRate(Schedule):
    """A constant learning rate, after the warm-up.

    Attributes:
        initial_learning_rate: the rate; None for the optimizer's.
        decay_steps: must be None.
        warmup_steps: steps of linear warm-up.
    """

    word: ClassVar[str] = "constant"
    formula: ClassVar[str] = "r"
    has_length: ClassVar[bool] = False


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
        return self.peak * self.decay_rate**power


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
        rest = 1 - _at_most(step, self._length) / self._length
        decay: float = (self.peak - self.end_learning_rate) * rest**self.power
        return decay + self.end_learning_rate


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
        fraction = _at_most(step, self._length) / self._length
        return self.peak * half_cosine(1.0, self.alpha, fraction)


@dataclass(frozen=True, slots=True)
class CosineDecayRestarts(Schedule):
    """Cosine decay with warm restarts, as in Keras.

    Attributes:
        initial_learning_rate: learning rate of the first step; None for the optimizer's.
        decay_steps: steps of the first period; None for a seventh of training, which gives three
            periods.
        warmup_steps: steps of linear warm-up.
        t_mul: factor of the length from each period to the next.
        m_mul: factor of the height of the cosine from each period to the next.
        alpha: lowest rate, as a fraction of the initial rate.
    """

    word: ClassVar[str] = "cosine_restarts"
    formula: ClassVar[str] = (
        "as cosine, over periods of D, D · t_mul, D · t_mul², … steps; "
        "period k begins at r (alpha + (1 − alpha) m_mul^k)"
    )
    portion: ClassVar[int] = 7
    t_mul: float = 2.0
    m_mul: float = 1.0
    alpha: float = 0.0

    def rate(self, step: int) -> float:
        """Returns the learning rate `step` updates after the warm-up."""
        period, factor, elapsed = float(self._length), 1.0, float(step)
        if self.t_mul == 1:  # there may be too many periods for a loop
            factor = self.m_mul ** (elapsed // period)
            elapsed %= period
        while elapsed >= period:
            elapsed -= period
            period *= self.t_mul
            factor *= self.m_mul
        cosine = half_cosine(1.0, 0.0, elapsed / period)
        return self.peak * (cosine * (1 - self.alpha) * factor + self.alpha)


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
        last_step = self._length - 1
        peak_step = max(self.pct_start * self._length - 1, 0.0)
        step = _at_most(step, last_step)
        first = self.peak / self.div_factor
        up = half_cosine(first, self.peak, step / peak_step if peak_step else 1.0)
        fraction = (step - peak_step) / max(last_step - peak_step, 1)
        down = half_cosine(self.peak, first / self.final_div_factor, fraction)
        return chosen(step <= peak_step, up, down)


@dataclass(frozen=True, slots=True)
class ReduceOnPlateau(Schedule):
    """Multiplies the rate by `factor` after `patience` epochs without an improvement.

    The trainer's `monitor` selects the value that should improve; the default is val_loss.
    Source: torch's ReduceLROnPlateau; patience counts as in Keras, one less than in torch.

    Attributes:
        initial_learning_rate: learning rate of the first step; None for the optimizer's.
        decay_steps: must be None, because validation decides when the rate falls.
        warmup_steps: steps of linear warm-up.
        factor: factor of each reduction, at most 1.
        patience: epochs without improvement before a reduction.
        min_delta: smallest change that counts as an improvement.
        cooldown: epochs after a reduction in which no epoch counts towards `patience`.
        min_learning_rate: the lowest rate.
    """

    word: ClassVar[str] = "plateau"
    formula: ClassVar[str] = "r, times factor after patience epochs without an improvement"
    on_plateau: ClassVar[bool] = True
    has_length: ClassVar[bool] = False
    factor: float = 0.1
    patience: int = 10
    min_delta: float = 1e-4
    cooldown: int = 0
    min_learning_rate: float = 0.0


def half_cosine(start: float, end: float, fraction: float) -> float:
    """Interpolates from start to end along half a period of a cosine; fraction is from 0 to 1."""
    return end + (start - end) * (1 + cosine(math.pi * fraction)) / 2


def _at_most(step: int, last: int) -> int:
    return chosen(step < last, step, last)


SCHEDULES: dict[str, type[Schedule]] = {
    kind.word: kind
    for kind in (
        ConstantRate,
        StepDecay,
        ExponentialDecay,
        PolynomialDecay,
        CosineDecay,
        CosineDecayRestarts,
        OneCycle,
        ReduceOnPlateau,
    )
}
# Those whose formula a C program can compute: no loop over periods, no validation.
IN_C = ConstantRate, StepDecay, ExponentialDecay, PolynomialDecay, CosineDecay, OneCycle
