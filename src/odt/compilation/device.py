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
    """A step, and the session that planned it and whose arrays it uses."""

    program: StepProgram
    session: Session


@dataclass(frozen=True, slots=True)
class Device:
    """A device.

    Attributes:
        target: name of its target.
        ram: bytes for static memory and the stack; None for any number.
        stack: bytes for the stack; None for what kernels need.
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
        if self.stack is not None and not TARGETS[self.target].has_stack_bounds:
            rule = "must come with `target=microcontroller`, since the stack of others is unknown"
            raise OptionError("stack", rule, f"`target={self.target}`")
        step = plan(None) if self.ram is None else self._within(plan, self.ram)
        least = stack_nbytes(step.program, self.target)
        if least is not None and self.stack is not None and least > self.stack:
            rule = f"must be at least {least} for the kernels that the program calls"
            raise OptionError("stack", rule, self.stack)
        return step

    def _within(self, plan: Callable[[int | None], PlannedStep], ram: int) -> PlannedStep:
        """Returns a step whose static memory and stack have at most `ram` bytes."""
        budget = max(ram - (self.stack or 0), 0)
        needs: list[tuple[int, int]] = []

        def need(step: PlannedStep) -> tuple[int, int]:
            """Returns the bytes of memory that a step needs, and those of its stack."""
            stack = self.stack or stack_nbytes(step.program, self.target) or 0
            return static_nbytes(step.program) + stack, stack

        try:
            while True:
                step = plan(budget)
                needs.append(need(step))
                excess = needs[-1][0] - ram
                if excess <= 0:
                    return step
                # The budget is for arrays alone, without their alignment and the stack.
                budget = max(min(budget, array_nbytes(step.program)) - excess, 0)
        except BudgetError as e:
            needs.append(need(plan(e.least)))
        least, stack = min(needs)
        note = f", with a stack of {stack}" if stack else ""
        raise OptionError("ram", f"must be at least {least}{note}", ram)
