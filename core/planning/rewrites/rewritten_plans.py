"""Plans rewritten to use less memory: reordered, activations compressed or recomputed."""

from odt.core.planning.computation import Computation, Plans
from odt.core.planning.memory import MemoryPlan, plan_memory
from odt.core.planning.plan import Plan
from odt.core.planning.rewrites.compress import use_digests
from odt.core.planning.rewrites.recompute import recompute
from odt.core.planning.rewrites.reorder import reorder


class RewrittenPlans(Plans):
    """Plans whose training plans are rewritten.

    Names of values define the rewrites, so that they apply to any number of samples, also to the
    shorter rest of a batch.

    Attributes:
        usual: the plans without rewrites.
        order: order of the entries, by name; empty for the usual one.
        digests: gradients that read a digest.
        dropped: values that are recomputed.
    """

    def __init__(
        self,
        plans: Plans,
        order: tuple[str, ...] = (),
        digests: frozenset[str] = frozenset(),
        dropped: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(plans.graphs, plans.stored)
        self.order, self.digests, self.dropped = order, digests, dropped
        self.usual = plans
        self._rewritten: dict[tuple[Computation, int], tuple[Plan, MemoryPlan]] = {}

    def at(self, computation: Computation, batch: int) -> tuple[Plan, MemoryPlan]:
        usual = self.usual.at(computation, batch)
        if not computation.backward:
            return usual
        key = (computation, batch)
        if key not in self._rewritten:
            plan = use_digests(reorder(usual[0], self.order), self.digests)
            plan = recompute(plan, self.dropped)
            self._rewritten[key] = plan, plan_memory(plan)
        return self._rewritten[key]
