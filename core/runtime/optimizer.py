"""An optimizer: an update rule with its hyper-parameters."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from odt.core.model.training_info import TrainingInfo
from odt.core.runtime.arena import make_arrays, make_zeros_by_page
from odt.core.runtime.clipping import Clipping
from odt.kernels.registry import OPTIMIZERS
from odt.kernels.rows.opdef import Array, Attrs, TensorSpec
from odt.kernels.rows.scheduledef import Schedule
from odt.kernels.rows.updatedef import Rows, UpdateRule

NO_CLIPPING = Clipping()


class Optimizer:
    """An update rule with its hyper-parameters.

    Attributes:
        rule: the rule's row: slots and formula.
        attrs: hyper-parameters other than the learning rate.
        learning_rate: learning rate, which may change between steps.
        schedule: learning rate schedule; overrides learning_rate if there is one.
        clipping: gradient clipping; needs the gradients of a whole step.
    """

    def __init__(
        self,
        rule: UpdateRule,
        attrs: Attrs,
        learning_rate: float,
        schedule: Schedule | None = None,
        clipping: Clipping = NO_CLIPPING,
    ) -> None:
        self.rule = rule
        self.attrs = attrs
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.clipping = clipping

    def state(
        self, trained: Mapping[int, Array], tables: Collection[int] = ()
    ) -> dict[str, dict[int, Array]]:
        """Allocates the state, by slot and tensor.

        Args:
            trained: the arrays that updates change.
            tables: those of which a step has gradients of some rows only.
        """
        specs = {
            (name, i): spec
            for i, a in trained.items()
            for name, spec in self.rule.state(
                self.attrs, TensorSpec(a.shape, real_dtype(a))
            ).items()
        }
        # State of rows that no step has read stays 0.
        resting = () if self.rule.rows(self.attrs) is Rows.ALL else tables
        by_page = {key: spec for key, spec in specs.items() if key[1] in resting}
        whole = {key: spec for key, spec in specs.items() if key not in by_page}
        arrays = make_arrays(whole, zeros=True) | make_zeros_by_page(by_page)
        slots: dict[str, dict[int, Array]] = {n: {} for n in self.rule.slots(self.attrs)}
        for name, i in specs:
            slots[name][i] = arrays[name, i]
        return slots

    def rate(self, step: int) -> float:
        """Returns the learning rate of update number `step`, counted from 1."""
        return self.schedule(step - 1) if self.schedule else self.learning_rate


def real_dtype(a: Array) -> np.dtype[Any]:
    """The type of the gradient of an array."""
    return a.dtype if a.dtype.kind == "f" else np.dtype(np.float32)


def optimizer_of(info: TrainingInfo) -> Optimizer:
    """The optimizer of resolved training info."""
    rule, rate = OPTIMIZERS[info.optimizer], info.learning_rate
    schedule = info.schedule and info.schedule.resolve(rate)
    clipping = Clipping(info.clip_norm, info.clip_value)
    return Optimizer(rule, rule.attrs(**info.hyper_parameters), rate, schedule, clipping)
