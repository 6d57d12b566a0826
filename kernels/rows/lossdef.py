"""LossDef, the row that declares a loss.

The choices on the command line, training info, checks of data files, metrics, random samples and
the documentation are derived from these rows.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array, OpDef, TensorSpec
from odt.kernels.rows.updatedef import HyperParameter

# Rows of values → the first invalid row and the reason, or None.
Check: TypeAlias = Callable[[Array], tuple[int, str] | None]
# A string, because importing numpy.random takes 15 ms and only odt check draws values.
Rng: TypeAlias = "np.random.Generator"
Draw: TypeAlias = "Callable[[Rng, TensorSpec], Array]"

FEW = 8192  # values whose product with themselves BLAS computes faster than their extremes
FEW_LABELS = 64  # labels whose extremes Python computes faster

# Forms of targets; each metric supports some of them.
DISTRIBUTIONS = "rows of probabilities"
FRACTIONS = "independent values from 0 to 1"
VALUES = "values"
LABELS = "integer labels"

IGNORED = -1  # label of a target that counts in neither loss nor metrics


def like_output(x: TensorSpec) -> TensorSpec:
    """Returns the spec of targets with one value for each element of the output."""
    return x


def check_finite(rows: Array) -> tuple[int, str] | None:
    """Checks that values are finite."""
    if rows.dtype.kind != "f" or not rows.size or _finite(rows):
        return None
    for k, row in enumerate(rows):
        if not _finite(row):
            bad = float(row[np.argmin(np.isfinite(row))])
            return k, f"values must be finite, but got {bad}"
    raise AssertionError("no row is at fault")


def _finite(rows: Array) -> bool:
    # A finite sum of squares has finite values; that of finite values may be infinite.
    if rows.size <= FEW and math.isfinite(np.vdot(rows, rows)):
        return True
    return math.isfinite(rows.min()) and math.isfinite(rows.max())


@dataclass(frozen=True, slots=True)
class LabelCheck:
    """Checks that labels are 0 to classes − 1, or IGNORED.

    Attributes:
        classes: number of classes.
        ignores: whether targets may be ignored.
    """

    classes: int
    ignores: bool = True

    def __call__(self, rows: Array) -> tuple[int, str] | None:
        """Returns the first invalid row and the reason, or None."""
        if not rows.size or self._are_valid(rows):
            return None
        for k, row in enumerate(rows):
            for label in (row.min(), row.max()):
                if not self._least <= label < self.classes:
                    others = f", or {IGNORED} to ignore one" if self.ignores else ""
                    return k, f"labels must be 0 … {self.classes - 1}{others}, but got {label}"
        raise AssertionError("no label is at fault")

    def _are_valid(self, rows: Array) -> bool:
        if rows.size <= FEW_LABELS:
            labels = rows.reshape(-1).tolist()
            return bool(min(labels) >= self._least and max(labels) < self.classes)
        return bool(rows.min() >= self._least and rows.max() < self.classes)

    @property
    def _least(self) -> int:
        return IGNORED if self.ignores else 0


def any_finite(output: TensorSpec) -> Check:
    """Returns the check for targets that may be any finite values."""
    return check_finite


def draw_values(rng: Rng, target: TensorSpec) -> Array:
    """Draws random targets from the standard normal distribution."""
    return rng.normal(size=target.shape)


def draw_classes(rng: Rng, target: TensorSpec) -> Array:
    """Draws random targets: one-hot rows, or 0 or 1 for a single unit (two classes)."""
    if target.shape[-1:] in ((), (1,)):
        return rng.integers(0, 2, target.shape)
    rows = np.zeros((target.size // target.shape[-1], target.shape[-1]))
    rows[np.arange(len(rows)), rng.integers(0, target.shape[-1], len(rows))] = 1
    return rows


def unknown_loss(targets: Array, output: TensorSpec) -> float:
    """Returns NaN, because the loss of constant predictions is unknown."""
    return math.nan


@dataclass(frozen=True, slots=True)
class LossDef:
    """A loss: its operator, and its properties outside the plan.

    Attributes:
        op: operator with the inputs x (an output of the model, or the input of its final
            activation), t and scale: one factor of the loss, (1,), or one for each sample or
            position, (R,).
        formula: loss of one sample, for the documentation.
        expects: description of a target, for the documentation.
        target: spec of an output → spec of the target.
        targets: form of the targets, one of the words above; selects metrics.
        check: spec of an output → check of its targets when they are read.
        draw: random generator, spec of one target → random values for it.
        constant_loss: targets of some samples, spec of one sample of the output → loss of the best
            constant prediction; NaN if it is unknown.
        fuses_with: final activation with which the loss is fused: the loss is computed from the
            activation's input. Such a loss has the options from_logits and mean_over_positions.
        default_for: final activation of outputs for which this loss is the default.
        probabilities: final activations whose outputs the loss reads as probabilities; it reads
            other outputs as logits.
        hyper_parameters: hyper-parameters of the loss, fields of the attributes from op.attrs.
        words: further names: Keras' short names, and those in circle_plus_gen's JSON.
        onert: number of the loss in onert_train.
        place: position in lists of losses; losses with the same position are sorted by name.
        class_name: name of its class in Python; if empty, made from `name`: mean_error, MeanError.
    """

    op: OpDef
    formula: str
    expects: str = "like the output"
    target: Callable[[TensorSpec], TensorSpec] = like_output
    targets: str = VALUES
    check: Callable[[TensorSpec], Check] = any_finite
    draw: Draw = draw_values
    constant_loss: Callable[[Array, TensorSpec], float] = unknown_loss
    fuses_with: str = ""
    default_for: str = ""
    probabilities: tuple[str, ...] = ()
    hyper_parameters: tuple[HyperParameter, ...] = ()
    words: tuple[str, ...] = ()
    onert: int | None = None
    place: int = 100
    class_name: str = ""

    def __post_init__(self) -> None:
        if not self.class_name:
            words = self.name.split("_")
            object.__setattr__(self, "class_name", "".join(map(str.capitalize, words)))

    @property
    def name(self) -> str:
        return self.op.name
