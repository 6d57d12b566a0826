"""Plans as programs run them, and how batches run: with gradients in blocks, meetings of workers.

Schedule and optimizer decide about both. The forecast and the programs take their plans from here,
so that training allocates what the forecast counts.
"""

from odt.core.planning.computation import Computation, Plans
from odt.core.planning.cost import is_short
from odt.core.planning.gradient_blocks import in_blocks
from odt.core.planning.gradient_sums import (
    TableRule,
    by_rows,
    computed_in_sums,
    gradient_sums,
    table_sums,
)
from odt.core.planning.meetings import Groups, choose_meetings, gathered
from odt.core.planning.memory import MemoryPlan, plan_memory
from odt.core.planning.packed_weights import packed_weights
from odt.core.planning.plan import Plan
from odt.core.planning.schedule import Schedule
from odt.core.planning.step_mode import Update, step_mode
from odt.core.planning.verify import verify


class StepPlans:
    """Plans of a computation's micro-batches, by number of samples.

    Attributes:
        plans: plans of the model.
        computation: the computation.
        schedule: micro-batches and workers.
        sums: where gradients are added up.
        mode: how a batch runs.
        groups: parameters of each meeting of workers.
        threads: threads of a worker that compute blocks of a gradient.
        has_blocks: whether there are gradients in blocks.
        packed: specs of the weights that are packed once in a step, by name.
    """

    def __init__(
        self,
        plans: Plans,
        computation: Computation,
        schedule: Schedule,
        *,
        keep: bool,
        in_parts: bool,
        tables: TableRule | None = None,
        whole: bool = False,
    ) -> None:
        """Chooses the mode, blocks and meetings.

        Args:
            plans: plans of the model.
            computation: the computation.
            schedule: micro-batches and workers.
            keep: whether to keep gradients until the end of a step, for any schedule.
            in_parts: whether parts of parameters can be updated.
            tables: which tables have sums of rows for gradients; None for none.
            whole: whether the update needs whole gradients nevertheless.
        """
        self.plans, self.computation, self.schedule = plans, computation, schedule
        size = schedule.micro_batch
        plan = plans.plan(computation, size)
        rows = table_sums(plan, schedule, tables) if tables else {}
        self.sums = gradient_sums(plan, schedule, keep=keep, in_parts=in_parts, tables=rows)
        if whole and schedule.workers > 1 and self.sums.immediate:  # workers would update parts
            keep = True
            self.sums = gradient_sums(plan, schedule, keep=keep, in_parts=in_parts, tables=rows)
        self._keep, self._in_parts, self._tables = keep, in_parts, tables
        self.mode = step_mode(plan, computation.losses, schedule, self.sums, keep=keep)
        packs = schedule.packs and computation.backward and not is_short(plan)
        self.packed = packed_weights(plan) if packs else {}
        met = self.sums.met(schedule.workers)
        self.groups: Groups = [(name,) for name in met]
        self.threads = 1 if schedule.workers > 1 else schedule.blas_threads
        self._in_blocks = self.sums.immediate if in_parts and not whole else ()
        self.has_blocks = self._with_blocks(plan) is not plan
        self._gathers = bool(met) and bool(self.sums.immediate)
        self._rewritten: dict[int, tuple[Plan, MemoryPlan]] = {}
        self._verified: set[int] = set()
        if self._gathers:
            meetings = choose_meetings(*self._in_blocks_and_sums(size), met)
            self.groups, self._rewritten[size] = meetings[0], meetings[1:]

    def with_whole_gradients(self) -> "StepPlans":
        """Returns the plans of the same computation for updates that need whole gradients."""
        return StepPlans(
            self.plans,
            self.computation,
            self.schedule,
            keep=self._keep,
            in_parts=self._in_parts,
            tables=self._tables,
            whole=True,
        )

    def check_after_step(self) -> None:
        """Raises LostFileError if a file became shorter before backward, which reads it, too."""
        if self.mode.update is Update.AFTER:  # else the update is done
            self.plans.check_files()

    @property
    def blocks(self) -> int:
        """Number of blocks that all workers compute at the same time."""
        return self.schedule.workers * self.threads

    @property
    def _rewrites(self) -> bool:
        """Whether the plans differ from those of `Plans`."""
        sums = self.sums
        return self.has_blocks or bool(sums.in_calls or sums.tables) or self._gathers

    def _with_blocks(self, plan: Plan) -> Plan:
        return in_blocks(plan, self._in_blocks, self.blocks) if self._in_blocks else plan

    def _in_blocks_and_sums(self, samples: int) -> tuple[Plan, MemoryPlan]:
        if not (self.has_blocks or self.sums.tables):
            return self.plans.in_sums(self.computation, samples, self.sums.in_calls)
        plan = by_rows(self.plans.plan(self.computation, samples), self.sums.tables)
        plan = self._with_blocks(plan)
        plan = computed_in_sums(plan, self.sums.in_calls)
        return plan, plan_memory(plan)

    def at(self, samples: int) -> tuple[Plan, MemoryPlan]:
        """Returns the plan for a number of samples, and its memory plan."""
        if not self._rewrites:
            return self.plans.at(self.computation, samples)
        if samples not in self._rewritten:
            plan, memory = self._in_blocks_and_sums(samples)
            if self._gathers:
                plan = gathered(plan, self.groups)
                memory = plan_memory(plan)
            self._rewritten[samples] = plan, memory
        return self._rewritten[samples]

    def verified(self, samples: int) -> tuple[Plan, MemoryPlan]:
        """Returns plan and memory plan like `at`, after checking once that they agree."""
        if not self._rewrites:
            return self.plans.verified(self.computation, samples)
        if samples not in self._verified:
            verify(*self.at(samples))
            self._verified.add(samples)
        return self.at(samples)

    @property
    def packed_nbytes(self) -> int:
        """Bytes of the weights that are packed once in a step."""
        return sum(spec.nbytes for spec in self.packed.values())

    @property
    def arena_nbytes(self) -> int:
        """Bytes of a worker's arena: of the largest run of a whole batch."""
        return max(self.at(n)[1].nbytes for n in self.schedule.sizes)
