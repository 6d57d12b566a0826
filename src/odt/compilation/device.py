"""The device that a C program is for: fits the program into its memory."""

from collections.abc import Callable
from typing import NamedTuple

from odt.core.emit.device import array_nbytes, stack_nbytes, static_nbytes
from odt.core.emit.step_program import StepProgram
from odt.core.planning.budget.fit_budget import BudgetError
from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.kernels.native.target import TARGETS
from odt.training.session import Session


class PlannedStep(NamedTuple):
    """A step, and the session that planned it, whose arrays it has."""

    program: StepProgram
    session: Session


@dataclass(frozen=True, slots=True)
class Device:
    """A device.

    Attributes:
        target: name of its target.
        ram: bytes for static memory and the stack; None for any number.
        stack: bytes that the stack may have; None for those of the target.
    """

    target: str
    ram: int | None
    stack: int | None

    def fit(self, plan: Callable[[int | None], PlannedStep]) -> PlannedStep:
        """Returns the step that fits into the device.

        Args:
            plan: returns the step whose arrays have at most so many bytes; None for no limit.

        Raises:
            OptionError: if no program fits; the message says what is needed.
        """
        row = TARGETS[self.target]
        if self.stack is not None and not row.stack:
            rule = "must come with `target=microcontroller`, since the stack of others is unknown"
            raise OptionError("stack", rule, f"`target={self.target}`")
        step = plan(None) if self.ram is None else self._within(plan, self.ram)
        stack, most = stack_nbytes(step.program, self.target), self._stack
        if stack is not None and stack > most:
            rule = f"must be at least {stack} for the kernels that the program calls"
            raise OptionError("stack", rule, most)
        return step

    @property
    def _stack(self) -> int:
        return TARGETS[self.target].stack if self.stack is None else self.stack

    def _within(self, plan: Callable[[int | None], PlannedStep], ram: int) -> PlannedStep:
        """Returns a step whose static memory and stack have at most `ram` bytes."""
        budget, needs = max(ram - self._stack, 0), list[int]()
        try:
            while True:
                step = plan(budget)
                needs.append(static_nbytes(step.program) + self._stack)
                if needs[-1] <= ram:
                    return step
                # Alignment takes more than arrays have: the next program has smaller arrays.
                budget = max(min(budget, array_nbytes(step.program)) - (needs[-1] - ram), 0)
        except BudgetError as e:
            needs.append(static_nbytes(plan(e.least).program) + self._stack)
        stack = f", with a stack of {self._stack}" if self._stack else ""
        raise OptionError("ram", f"must be at least {min(needs)}{stack}", ram)
