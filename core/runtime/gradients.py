"""Sums of the gradients of a step, and what workers do with complete gradients."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from operator import itemgetter

import numpy as np

from odt.core.planning.gradient_blocks import block_ends
from odt.core.planning.gradient_sums import TableSums
from odt.core.planning.plan import Plan
from odt.core.planning.step_plans import StepPlans
from odt.core.runtime.arena import make_arrays
from odt.core.runtime.clipping import Clipping
from odt.core.runtime.parameters import Parameters
from odt.core.runtime.place import Place
from odt.core.runtime.program import Deliver, SelectedRows
from odt.core.runtime.team import Task, Team
from odt.kernels.native.binding import Calls, Run, in_order, joined, one_loop
from odt.kernels.native.updates import (
    RowSums,
    bind_accumulate,
    bind_add_rows,
    bind_meet,
    bind_merge_rows,
    bind_side_by_side,
    fits_compiled,
    leave_meetings,
)
from odt.kernels.rows.opdef import Array, TensorSpec

ALONE = 2**18  # values that one thread updates before others are awake
ALWAYS = np.ones(1, np.int64)  # `adds` of calls that always add
LINE = 16  # values of a cache line, of which each has one writer
STATE = 3  # numbers of the state of meetings (`bind_meet`)
FAILED = 2  # of these, the one that says whether a worker has failed


class Gradients:
    """The sums of an engine's gradients; `GradientSums` says which there are.

    Attributes:
        sums: of each worker, by tensor index; the first worker has those that all share.
        adds: of each worker, (1,): whether the next gradients are added to its sums, or begin new
            ones.
        scratch: of each worker, memory of its updates.
        tables: of each worker, the sums of rows of tables, by tensor index.
        met: parameters for whose gradients workers meet, to add or use them together.
        clip_memory: memory of gradient clipping.
    """

    def __init__(self, plans: StepPlans, parameters: Parameters) -> None:
        """Allocates the sums.

        Args:
            plans: plans of the computation.
            parameters: parameters to update.
        """
        choice = plans.sums
        plan, _ = plans.at(plans.schedule.micro_batch)
        self._parameters, self._plans = parameters, plans
        self._tensors = {name: _tensor(plan, name) for name in plan.parameters}
        self._immediate = frozenset(choice.immediate)
        self._shared = frozenset(choice.shared)
        specs = {self._tensors[name]: spec for name, spec in plan.trained_specs.items()}
        separate, shared = ([self._tensors[n] for n in s] for s in (choice.separate, choice.shared))
        workers = range(plans.schedule.workers)
        sums = ([*separate, *shared] if k == 0 else separate for k in workers)
        self.sums = [make_arrays({i: specs[i] for i in each}) for each in sums]
        by_tensor = {self._tensors[name]: table for name, table in choice.tables.items()}
        self.tables = [{i: make_row_sums(t, k) for i, t in by_tensor.items()} for k in workers]
        updated = {self._tensors[name] for name in choice.immediate}
        self._tables_after_step = [i for i in by_tensor if i not in updated]
        self.adds = [np.zeros(1, np.int64) for _ in workers]
        self.scratch = [parameters.scratch() for _ in workers]
        self.met = frozenset(choice.met(plans.schedule.workers))
        self._state = np.zeros(STATE, np.int64)
        self._adds_shared = np.zeros(1, np.int64)
        self._summing = 1  # workers, from the first, whose sums are not added yet
        self._bound: dict[tuple[object, ...], list[Task]] = {}
        optimizer = parameters.optimizer
        self._clipping = optimizer.clipping if optimizer else Clipping()
        self.clip_memory = self._clipping.memory(len(self._clipped))

    @property
    def nbytes(self) -> int:
        """Bytes of the sums."""
        rows = sum(a.nbytes for tables in self.tables for t in tables.values() for a in t)
        return sum(a.nbytes for sums in self.sums for a in sums.values()) + rows

    def begin(self, workers: int, *, keep: bool) -> None:
        """Begins new sums on a number of workers, or adds to those of earlier batches if `keep`."""
        self._summing = workers
        for k in range(workers):
            self.adds[k][0] = keep and k == 0  # which holds the sums of earlier batches
        if self.met:
            self._adds_shared[0] = keep
            self._state.fill(0)

    def end_run(self, k: int) -> None:
        """Makes a worker's next gradients add to its sums, and all workers' to the shared ones."""
        self.adds[k][0] = True
        if self.met:  # after the last meeting of the run, so that none still reads it
            self._adds_shared[0] = True

    def fail(self) -> None:
        """Lets no worker wait for one that failed."""
        if self.met:
            leave_meetings(self._state)

    @property
    def failed(self) -> bool:
        """Whether a worker failed in this step; then meetings no longer change anything.

        No worker comes to a meeting before its loss is known, so that parameters are updated if all
        losses are finite.
        """
        return bool(self.met) and bool(self._state[FAILED])

    def memory(self, worker: int) -> tuple[Array, ...]:
        """The arrays of one worker alone, in the same order for all workers."""
        sums = (self.sums[worker][i] for i in self.sums[-1])
        tables = self.tables[worker].values()
        return self.adds[worker], *sums, *(a for table in tables for a in table)

    def deliver(self, worker: int, places: Mapping[int, Place]) -> Deliver:
        """Returns the function that binds the calls which take the gradients of a worker's program.

        Args:
            worker: number of the worker.
            places: of the worker, and of those that run at the same time if they meet.
        """
        lasts = {group[-1] for group in self._plans.groups}
        order = [n for n in places[worker].plan.parameters if n in self.met]
        for place in places.values():
            met = [n for n in place.plan.parameters if n in self.met]
            assert met == order, "all workers meet in one order"
        calls: list[Calls] = []  # of the next meeting

        def deliver(
            name: str, gradient: Array, owned: bool, rows: SelectedRows | None
        ) -> Sequence[Run]:
            """Returns the calls that take a gradient; those of a meeting at its last one."""
            i = self._tensors[name]
            if rows is not None:
                return self._bind_rows(name, worker, rows)
            in_blocks = places[worker].plan.deliveries[name].call is not None
            if name in self.met or in_blocks:
                bind = self._bind_blocks if in_blocks else self._bind_part
                calls.extend(bind(name, worker, list(places.values())))
                if self.met and name not in lasts:
                    return ()
                is_alone = len(places) == 1
                runs = calls[:] if is_alone else [bind_meet(self._state, len(places), calls)]
                calls.clear()
                return runs
            if name in self._immediate:
                return self._parameters.bind_update(i, gradient, owned, self.scratch[worker])
            total = self.sums[worker][i]
            if gradient.ctypes.data == total.ctypes.data:  # computed in place
                return ()
            return (bind_add(total, gradient, self.adds[worker]),)

        return deliver

    def _bind_rows(self, name: str, worker: int, rows: SelectedRows) -> list[Run]:
        """Returns the calls that add gradients of a table's rows to their sums, or use them."""
        i = self._tensors[name]
        table = self.tables[worker][i]
        calls = [*rows.find, bind_add_selected(table, rows, self.adds[worker])]
        if name in self._immediate:
            calls += self._parameters.bind_table(i, table, self.scratch[worker])
        return calls

    def in_place(self, worker: int, plan: Plan, *, adds: bool) -> dict[str, Array]:
        """The sums in which a worker computes gradients, by parameter.

        Args:
            worker: number of the worker.
            plan: plan of a micro-batch.
            adds: whether there are other micro-batches, so that gradients are added to the sums.
        """
        met = {plan.root(plan.gradients[name]) for name in self.met}
        sums = self.sums[worker]
        candidates = self._plans.sums.in_calls if adds else plan.gradients
        names = (n for n in candidates if plan.root(plan.gradients[n]) not in met)
        return {n: sums[self._tensors[n]] for n in names if self._tensors[n] in sums}

    def _bind_part(self, name: str, worker: int, places: Sequence[Place]) -> list[Calls]:
        """Returns the calls that add or use a worker's part of a gradient."""
        each = [place.gradient(name) for place in places]
        size = each[0].size
        workers = len(each)
        ends = [*(size * k // workers // LINE * LINE for k in range(workers)), size]
        part = slice(ends[worker], ends[worker + 1])
        i = self._tensors[name]
        first, *others = (a[part] for a in each)
        total = first
        calls: list[Calls] = []
        if name in self._shared:
            total = self.sums[0][i].reshape(-1, copy=False)[part]
            calls.append(bind_accumulate(total, first, self._adds_shared))
        calls += [bind_accumulate(total, other, ALWAYS) for other in others]
        if name in self._immediate:
            calls.append(self._parameters.bind_part(i, total, part))
        return calls

    def _bind_blocks(self, name: str, worker: int, places: Sequence[Place]) -> list[Calls]:
        """Returns the calls that compute a worker's part of a gradient in blocks, and use it."""
        threads = self._plans.threads
        i = self._tensors[name]
        blocks = places[worker].array(places[worker].plan.gradients[name])
        binders = [place.block_of(name) for place in places]
        weight = self._parameters.trained[i]
        ends = block_ends(TensorSpec(weight.shape, weight.dtype), self._plans.blocks)
        inner = weight.size // len(weight)
        count = len(ends) - 1
        among = len(places) * threads
        each_thread = []
        for k in range(worker * threads, (worker + 1) * threads):
            # A thread of the only worker has one block; one of several workers has one for each.
            memory = blocks[k : k + 1] if threads > 1 else blocks[: len(places)]
            calls = list[Calls]()
            part = ends[count * k // among : count * (k + 1) // among + 1]
            for first, end in pairwise(part):
                results = [block[: end - first] for block in memory]
                calls += [bind(a, first) for bind, a in zip(binders, results, strict=True)]
                calls += [bind_accumulate(results[0], other, ALWAYS) for other in results[1:]]
                values = slice(first * inner, end * inner)
                calls.append(self._parameters.bind_part(i, results[0], values))
            each_thread.append(one_loop(calls))
        return each_thread if threads == 1 else [bind_side_by_side(each_thread)]

    @property
    def are_complete(self) -> bool:
        """Whether one worker's sums need no further call before an update."""
        return len(self.sums) == 1 and not (self.met or self._tasks(update=False))

    def add_up(self, team: Team) -> None:
        """Adds the sums of all workers to those of the first."""
        for tasks in (self._tasks(update=False), self._merging_tasks()):
            if tasks:
                team.run(tasks)
        self._summing = 1

    def update(self, team: Team, *, keep: bool = False) -> None:
        """Updates each parameter that has a sum on one of the workers.

        Args:
            team: threads that update.
            keep: whether the sums must stay as they are; otherwise the update may destroy them.
        """
        if not (self.sums[0] or self._tables_after_step):
            return
        if self._clips:
            self.add_up(team)
            for run in self._clips:
                run()
        elif merging := self._merging_tasks():
            team.run(merging)
        team.run(self._tasks(update=True, keep=keep))

    @cached_property
    def _clips(self) -> list[Run]:
        """The calls that clip the sums of the first worker, in the order of the tensors."""
        return joined(self._clipping.bind(self._clipped, self.clip_memory))

    @property
    def _clipped(self) -> list[Array]:
        """The sums of the first worker, in the order of the tensors."""
        tables = {i: self.tables[0][i].sums for i in self._tables_after_step}
        return [a for _, a in sorted({**self.sums[0], **tables}.items(), key=itemgetter(0))]

    def calls_after_step(self) -> list[Run]:
        """The calls with which one worker alone clips its gradients, and updates parameters."""
        return [*self._clips, *self._tasks(update=True)]

    def _tasks(self, *, update: bool, keep: bool = False) -> list[Task]:
        """Returns the tasks of workers that add sums of gradients, and update parameters.

        A single worker without updates has nothing to do.
        """
        key = self._summing, update, keep, self._parameters.pulls
        if key not in self._bound:
            # the largest first, so that all workers finish at about the same time
            sums = self.sums[0]
            trained = sorted(sums, key=lambda i: -sums[i].size)
            tables = self._tables_after_step if update else []
            values = sum(self._parameters.trained[i].size for i in tables)
            are_few = sum(a.size for a in sums.values()) + values < ALONE
            workers = 1 if are_few else len(self.sums)
            each = [
                [
                    call
                    for i in trained[k::workers]
                    for call in self._bind_sum(i, self.scratch[k], update=update, keep=keep)
                ]
                + [
                    call
                    for i in tables
                    for call in self._parameters.bind_table(
                        i, self.tables[0][i], self.scratch[k], k, workers
                    )
                ]
                for k in range(workers)
            ]
            self._bound[key] = [in_order(calls) for calls in each if calls]
        return self._bound[key]

    def _merging_tasks(self) -> list[Task]:
        """Returns the tasks that add the sums of rows of all workers to those of the first."""
        key = "tables", self._summing
        if key not in self._bound:
            workers = len(self.tables)
            others = self.tables[1 : self._summing]
            each = [
                [
                    bind_merge(self.tables[0][i], tables[i])
                    for i in self._tables_after_step[k::workers]
                    for tables in others
                ]
                for k in range(workers)
            ]
            self._bound[key] = [in_order(calls) for calls in each if calls]
        return self._bound[key]

    def _bind_sum(self, i: int, scratch: Array, *, update: bool, keep: bool) -> Iterator[Run]:
        """Yields the calls that sum a gradient in the first worker's memory, and use it."""
        first, *others = (sums[i] for sums in self.sums[: self._summing] if i in sums)
        for other in others:
            yield bind_add(first, other, ALWAYS)
        yield from self._parameters.bind_clear(i, first)
        if update:
            yield from self._parameters.bind_update(i, first, not keep, scratch)


def _tensor(plan: Plan, name: str) -> int:
    """Returns the tensor index of a parameter, by the name of its value."""
    tensor = plan.values[name].tensor
    assert tensor is not None, "parameters are tensors"
    return tensor


def bind_add(total: Array, gradient: Array, adds: Array) -> Run:
    """Returns a call of total += gradient if adds[0], else total = gradient."""
    if fits_compiled(total, gradient):
        return bind_accumulate(total, gradient, adds)

    def add() -> None:
        if adds[0]:
            np.add(total, gradient, out=total)
        else:
            np.copyto(total, gradient)

    return add


def make_row_sums(table: TableSums, worker: int) -> RowSums:
    """Allocates the sums of a worker's gradients of a table's rows."""
    return RowSums(**make_arrays(table.specs(worker), zeros=True))


def bind_add_selected(total: RowSums, selected: SelectedRows, adds: Array) -> Run:
    """Returns a call that adds gradients of rows, to no earlier ones unless adds[0]."""
    at, gradients = selected.at, selected.gradients
    if at.size and fits_compiled(total.sums, gradients):
        return bind_add_rows(total, at, gradients, adds)

    def add() -> None:
        if not adds[0]:
            total.sums[: total.listed.size] = 0
            total.places[total.listed] = 0
            total.rows[0] = 0
        _add_rows(total, at, gradients)

    return add


def bind_merge(total: RowSums, other: RowSums) -> Run:
    """Returns a call that adds the sums of another worker's rows."""
    if fits_compiled(total.sums):
        return bind_merge_rows(total, other)

    def merge() -> None:
        _add_rows(total, other.listed, other.sums[: other.listed.size])

    return merge


def _add_rows(total: RowSums, at: Array, gradients: Array) -> None:
    selected = np.unique(at)
    new = selected[total.places[selected] == 0]
    first = 1 + total.rows.item(0)
    total.rows[first : first + new.size] = new
    total.places[new] = np.arange(first, first + new.size)
    total.rows[0] += new.size
    rows = gradients.reshape(at.size, *total.sums.shape[1:], copy=False)
    np.add.at(total.sums, total.places[at] - 1, rows)
