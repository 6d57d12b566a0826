"""UpdateRule, the row that declares an optimizer; HyperParameter, of an optimizer or a loss."""

import math
from collections.abc import Callable
from dataclasses import asdict
from enum import Enum
from typing import Any, TypeAlias

from odt.dataclass import dataclass, replace
from odt.kernels.rows.opdef import Attrs, Specs, TensorSpec
from odt.kernels.rows.scalars import is_number

CompiledUpdate: TypeAlias = tuple[str, tuple[float, ...]]  # name of a kernel, and its numbers


@dataclass(frozen=True, slots=True)
class HyperParameter:
    """A hyper-parameter of an optimizer or a loss: a number of at least 0, or a switch.

    Attributes:
        name: name of the field in the attrs, which has the default.
        help: description without a full stop: "Momentum coefficient".
        note: how this optimizer uses it, if others use it in another way.
        most: largest value; None for no limit.
        below: whether values must be less than `most`.
        switch: whether it is a switch (on or off) instead of a number.
        omitted: whether files leave it out while it is off, as those of earlier versions do.
    """

    name: str
    help: str
    most: float | None = None
    below: bool = False
    switch: bool = False
    omitted: bool = False
    note: str = ""

    @property
    def rule(self) -> str:
        """Describes the rule for a value."""
        if self.switch:
            return "true or false"
        if self.most is None:
            return "a number, 0 or more"
        return f"a number, 0 or more and {'below' if self.below else 'at most'} {self.most:g}"

    def allows(self, value: object) -> bool:
        """Whether a value is valid."""
        if self.switch:
            return isinstance(value, int) and value in (0, 1)
        most = math.inf if self.most is None else self.most
        return is_number(value) and 0 <= value <= most and not (self.below and value == most)


WEIGHT_DECAY = HyperParameter("weight_decay", "Weight decay", note="added to the gradient")
DECOUPLED_WEIGHT_DECAY = replace(WEIGHT_DECAY, note="decoupled")


class Rows(Enum):
    """The rows of a table that an update changes, if a step has gradients of some rows only."""

    ALL = 0
    WITH_STATE = 1  # those with a gradient, or with state that is not 0
    LISTED = 2  # those with a gradient


def all_rows(attrs: Attrs) -> Rows:
    return Rows.ALL


def is_lazy(attrs: Attrs) -> bool:
    """Whether rows of tables without a gradient keep values that an exact update would change."""
    return bool(getattr(attrs, "lazy", False))


@dataclass(frozen=True, slots=True)
class UpdateRule:
    """The row of an optimizer.

    run(attrs, learning_rate, step, *, p, g, work, **slots) updates p and the slots in place and may
    overwrite g; all arrays are one-dimensional. step is 1 on the first update. The rule may be
    applied to pieces of a parameter, unless it is `whole`.

    Attributes:
        name: name on the command line.
        attrs: frozen dataclass with the hyper-parameters and their defaults.
        slots: (attrs) → names of the state arrays, initially zero.
        slot_specs: (attrs, spec of a parameter) → specs of its state arrays, which may be only some
            of `slots`; by default each is shaped like the parameter.
        whole: whether `run` gets whole parameters in their own shape, and leaves g as it is.
        rows: (attrs) → the rows of a table that an update changes.
        run: the update.
        work: number of scratch arrays of TILE elements that `run` needs.
        compiled: (attrs, learning_rate, step) → name of the kernel that makes the same update of
            float32 arrays, and the numbers that it gets.
        hyper_parameters: the hyper-parameters, in the order of the fields of attrs.
        words: further names in circle_plus_gen's JSON.
        onert: number of the optimizer in onert_train.
        place: position in lists of optimizers; those with the same position are sorted by name.
        class_name: name of its class in Python; if empty, `name` with a capital letter.
        learning_rate: default learning rate of that class.
    """

    name: str
    attrs: type[Any]
    slots: Callable[[Attrs], tuple[str, ...]]
    run: Callable[..., None]
    work: int = 0
    compiled: Callable[[Any, float, int], CompiledUpdate] | None = None
    hyper_parameters: tuple[HyperParameter, ...] = ()
    words: tuple[str, ...] = ()
    onert: int | None = None
    place: int = 100
    class_name: str = ""
    learning_rate: float = 0.001
    slot_specs: Callable[[Attrs, TensorSpec], Specs] | None = None
    whole: bool = False
    rows: Callable[[Any], Rows] = all_rows

    def __post_init__(self) -> None:
        if not self.class_name:
            object.__setattr__(self, "class_name", self.name.capitalize())

    def stored(self, attrs: Attrs) -> dict[str, float]:
        """Returns the hyper-parameters that files store."""
        omitted = {h.name for h in self.hyper_parameters if h.omitted}
        return {n: v for n, v in asdict(attrs).items() if v or n not in omitted}

    def state(self, attrs: Attrs, p: TensorSpec) -> Specs:
        """Returns the specs of a parameter's state arrays, by slot."""
        if self.slot_specs is not None:
            return self.slot_specs(attrs, p)
        return dict.fromkeys(self.slots(attrs), p)
