"""The base of all optimizer classes."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.habits import missing_attribute, unknown_argument
from odt.kernels.rows.scalars import plain
from odt.kernels.rows.scheduledef import Schedule


@dataclass(frozen=True, slots=True)
class Optimizer:
    """Base class of optimizers: a learning rate and hyper-parameters.

    Attributes:
        learning_rate: step size, above 0, or a Schedule.
    """

    name: ClassVar[str] = ""
    learning_rate: float | Schedule = 0.001

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            what = f"odt.{type(self).__name__}"
            raise missing_attribute(name, lambda: dir(type(self)), what, "Optimizer")

    def _refuse(self, name: str) -> OptionError:
        """Returns the error of an unknown argument, for `odt.dataclass`."""
        names = [f.name for f in fields(self)]
        return unknown_argument(name, f"odt.{type(self).__name__}", names, base="Optimizer")

    def hyper_parameters(self) -> dict[str, Any]:
        """Returns the hyper-parameters by name, without the learning rate."""
        names = [f.name for f in fields(self) if f.name != "learning_rate"]
        return {name: plain(getattr(self, name)) for name in names}
