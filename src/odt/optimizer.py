"""The base of all optimizer classes."""

from dataclasses import fields
from typing import Any, ClassVar

from odt.dataclass import dataclass
from odt.kernels.rows.scheduledef import Schedule


@dataclass(frozen=True, slots=True)
class Optimizer:
    """Base class of optimizers: a learning rate and hyper-parameters.

    Attributes:
        learning_rate: step size, above 0, or a Schedule.
    """

    name: ClassVar[str] = ""
    learning_rate: float | Schedule = 0.001

    def hyper_parameters(self) -> dict[str, Any]:
        """Returns the hyper-parameters by name, without the learning rate."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "learning_rate"}
