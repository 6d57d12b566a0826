"""Plans rewritten to use less memory: reordered, activations compressed or recomputed."""

from odt.core.planning.computation import Computation, Plans
from odt.core.planning.memory import MemoryPlan
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
        super().__init__(plans.graphs, plans.stored, plans.integers, plans.rounded)
        self.order, self.digests, self.dropped = order, digests, dropped
        self.usual = plans

    def _make(self, computation: Computation, batch: int) -> Plan:
        plan = self.usual.plan(computation, batch)
        if not self._rewrites(computation):
            return plan
        return recompute(use_digests(reorder(plan, self.order), self.digests), self.dropped)

    def _rewrites(self, computation: Computation) -> bool:
        """Whether the plans of a computation differ from the usual ones."""
        return computation.backward and bool(self.order or self.digests or self.dropped)

    def at(self, computation: Computation, batch: int) -> tuple[Plan, MemoryPlan]:
        """Returns the plan for a number of samples, and its memory plan."""
        if not self._rewrites(computation):
            return self.usual.at(computation, batch)
        return super().at(computation, batch)
