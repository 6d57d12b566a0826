"""Plans that keep less from the forward phase for the backward phase."""

from odt.core.engine import Plans, Work
from odt.core.memory import MemoryPlan, plan_memory
from odt.core.plan import Plan
from odt.core.recompute import recompute


class LeanPlans(Plans):
    """Another's plans, those of training rewritten.

    What is saved is said by the names of values, so that it is the same for a batch's shorter rest.

    Attributes:
        dropped: values that are computed again.
    """

    def __init__(self, plans: Plans, dropped: frozenset[str] = frozenset()) -> None:
        super().__init__(plans.graph)
        self.dropped = dropped
        self._plans = plans
        self._lean: dict[tuple[str, int], tuple[Plan, MemoryPlan]] = {}

    def at(self, work: Work, batch: int) -> tuple[Plan, MemoryPlan]:
        found = self._plans.at(work, batch)
        if not work.backward:
            return found
        key = (repr(work), batch)
        if key not in self._lean:
            plan = recompute(found[0], self.dropped)
            self._lean[key] = plan, plan_memory(plan)
        return self._lean[key]
