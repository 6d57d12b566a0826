"""Where workers add up the gradients of a step.

A table of embeddings is far larger than the rows that a step reads. Its gradient is 0 elsewhere, so
that only rows with a gradient need memory, and are added up.
"""

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from types import MappingProxyType

import numpy as np

from odt.core.model.training_info import TrainingInfo
from odt.core.planning.plan import Call, Delivery, Plan, Region
from odt.core.planning.schedule import Schedule
from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.kernels.native.library import is_available
from odt.kernels.registry import OPTIMIZERS
from odt.kernels.rows.opdef import Attrs, TensorSpec
from odt.kernels.rows.updatedef import UpdateRule, is_lazy

# Values of a gradient for which workers meet, instead of each adding it to a sum of its own.
LARGE = 2**14  # if they update the parameter: one meeting in a step
LARGE_IN_EACH_RUN = 2**18  # if they add the gradient to a shared sum: a meeting in each run
WORTHWHILE = 2**18  # values of all these gradients together; below, workers do not meet
# Values that the sums of all workers may have beside one sum, so that none waits for another in
# each run: MobileNetV2's classifier takes 5 MB and 2 to 4 % less time (batch 8 and 32, two cores).
SPARE = 2**21
LEAST_TABLE = 2**14  # values of a table, below which its whole gradient takes no time
FRACTION = 2  # rows of a table must be at least this many times those of a step


@dataclass(frozen=True, slots=True)
class TableRule:
    """Which tables have sums of rows.

    Attributes:
        batches: batches of a step.
        lazy: whether all tables have them that can, because other rows must not change.
    """

    batches: int = 1
    lazy: bool = False


def tables_of(info: TrainingInfo) -> TableRule | None:
    """Returns which tables have sums of rows for gradients in a training; None for none."""
    rule = OPTIMIZERS[info.optimizer]
    return table_rule(rule, rule.attrs(**info.hyper_parameters), info.accumulate)


def table_rule(rule: UpdateRule, attrs: Attrs, batches: int) -> TableRule | None:
    """Returns which tables an update takes as sums of rows; None for none.

    Args:
        rule: the optimizer.
        attrs: its hyper-parameters.
        batches: batches of a step.
    """
    lazy = is_lazy(attrs)
    can = lazy or (rule.compiled is not None and is_available())
    return TableRule(batches, lazy) if can else None


@dataclass(frozen=True, slots=True)
class TableSums:
    """The sums of the rows of a table, of each worker.

    Attributes:
        table: spec of the table.
        most: rows of a step, which are those of the first worker in the end.
        each: rows of a batch on another worker.
    """

    table: TensorSpec
    most: int
    each: int

    def specs(self, worker: int) -> dict[str, TensorSpec]:
        """Returns the specs of a worker's arrays.

        They are the sums (capacity, …); the number of rows that have one, and these rows in the
        order of the sums (1 + capacity,); and for each row of the table the place of its sum,
        counted from 1, or 0 (V,).
        """
        rows = self.each if worker else self.most
        entries, *inner = self.table.shape
        return {
            "sums": TensorSpec((rows, *inner), self.table.dtype),
            "rows": TensorSpec((1 + rows,), np.dtype(np.int64)),
            "places": TensorSpec((entries,), np.dtype(np.int32)),
        }

    def nbytes(self, workers: int) -> int:
        """Returns the bytes of the arrays of all workers."""
        return sum(spec.nbytes for k in range(workers) for spec in self.specs(k).values())


NO_TABLES: Mapping[str, TableSums] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class GradientSums:
    """Where the gradient of each parameter is added up, by name of the parameter.

    Attributes:
        separate: each worker has a sum; the update adds these.
        shared: there is one sum. When all workers have computed the gradient of a micro-batch, each
            adds a part of the values.
        in_calls: those of `separate` whose gradients the calls that compute them add to the sums.
        immediate: there is no sum: the parameter is updated when all workers have computed the
            gradient, and each updates a part.
        tables: each worker has sums of rows. The only worker updates at once those of `immediate`.
    """

    separate: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    immediate: tuple[str, ...] = ()
    in_calls: frozenset[str] = frozenset()
    tables: Mapping[str, TableSums] = field(default_factory=dict)

    def met(self, workers: int) -> tuple[str, ...]:
        """Returns the parameters for whose gradients several workers meet."""
        return (*self.immediate, *self.shared) if workers > 1 else ()

    def nbytes(self, plan: Plan, workers: int) -> int:
        """Returns the bytes of all sums."""
        sizes = plan.gradient_nbytes
        separate, shared = (sum(sizes[n] for n in names) for names in (self.separate, self.shared))
        tables = sum(table.nbytes(workers) for table in self.tables.values())
        return workers * separate + shared + tables


def gradient_sums(
    plan: Plan,
    schedule: Schedule,
    *,
    keep: bool,
    in_parts: bool = True,
    tables: Mapping[str, TableSums] = NO_TABLES,
) -> GradientSums:
    """Chooses where gradients are added up.

    Args:
        plan: plan for a micro-batch of a training step.
        schedule: micro-batches and workers.
        keep: whether gradients are kept until the end of a step.
        in_parts: whether parts of parameters can be updated: not if only some rows train.
        tables: tables whose gradients are sums of rows.
    """
    one_run_each = schedule.batch <= schedule.micro_batch * schedule.workers
    if schedule.workers == 1 and one_run_each and not keep:
        return GradientSums(immediate=plan.parameters, tables=tables)
    updates = one_run_each and not keep and in_parts
    met = _met_parameters(plan, schedule.workers, tables, updates=updates)
    immediate = {name for name, k in met.items() if updates and owns_whole(plan, k)}
    return GradientSums(
        separate=tuple(n for n in plan.parameters if n not in met and n not in tables),
        shared=tuple(name for name in met if name not in immediate),
        immediate=tuple(name for name in met if name in immediate),
        in_calls=added_in_calls(plan).difference(met),
        tables=tables,
    )


def _met_parameters(
    plan: Plan, workers: int, tables: Collection[str], *, updates: bool
) -> dict[str, int]:
    """Returns the parameters for whose gradients workers meet, each with the entry of its delivery.

    Args:
        plan: plan for a micro-batch of a training step.
        workers: number of workers.
        tables: parameters for which they do not meet.
        updates: whether they update parameters where they meet, once in a step.
    """
    if workers == 1 or not is_available():
        return {}
    least = LARGE if updates else LARGE_IN_EACH_RUN
    met = {
        entry.parameter: k
        for k, entry in enumerate(plan.entries)
        if isinstance(entry, Delivery)
        and entry.parameter not in tables
        and _is_large(plan, entry, least)
    }
    sizes = {name: spec.size for name, spec in plan.trained_specs.items()}
    if not updates:
        added = added_in_calls(plan) & met.keys()
        if (workers - 1) * sum(sizes[name] for name in added) <= SPARE:
            met = {name: k for name, k in met.items() if name not in added}
    return met if sum(sizes[name] for name in met) >= WORTHWHILE else {}


def _is_large(plan: Plan, delivery: Delivery, least: int) -> bool:
    """Whether a gradient has `least` values or more, of float32 and in the arena."""
    spec = plan.values[delivery.gradient].spec
    region = plan.values[plan.root(delivery.gradient)].region
    return region is Region.ARENA and spec.size >= least and spec.dtype == "float32"


def sole_calls(plan: Plan) -> dict[str, int]:
    """Returns the entries that compute gradients of whole parameters, by name of the parameter.

    These are entries whose gradient nothing but its delivery reads.
    """
    roots = plan.roots
    uses: dict[str, list[int]] = {plan.root(name): [] for name in plan.gradients.values()}
    calls = {}
    for k, entry in enumerate(plan.entries):
        for name in entry.touched:
            entries = uses.get(roots.get(name, name))
            if entries is not None and entries[-1:] != [k]:
                entries.append(k)
        if isinstance(entry, Delivery) and owns_whole(plan, k):
            first, *others = uses[plan.root(entry.gradient)]
            if others == [k]:
                calls[entry.parameter] = first
    return calls


def added_in_calls(plan: Plan) -> frozenset[str]:
    """Returns the parameters for which the call that computes a gradient can add it to a sum."""
    calls = ((name, plan.entries[k]) for name, k in sole_calls(plan).items())
    return frozenset(
        n for n, c in calls if isinstance(c, Call) and c.compiled and c.compiled.in_sums
    )


def computed_in_sums(plan: Plan, parameters: Collection[str]) -> Plan:
    """Returns the plan with no memory in the arena for gradients that calls add to sums.

    Args:
        plan: plan for a micro-batch.
        parameters: those of which each worker has a sum, and a call adds to it.
    """
    if not parameters:
        return plan
    roots = [plan.root(plan.gradients[name]) for name in parameters]
    moved = {root: replace(plan.values[root], region=Region.SUM) for root in roots}
    return replace(plan, values={**plan.values, **moved})


def in_arena(plan: Plan) -> Plan:
    """Returns the plan with memory for these gradients: the reverse of `computed_in_sums`."""
    sums = {n: v for n, v in plan.values.items() if v.region is Region.SUM}
    moved = {name: replace(value, region=Region.ARENA) for name, value in sums.items()}
    return replace(plan, values={**plan.values, **moved}) if sums else plan


def owns_whole(plan: Plan, k: int) -> bool:
    """Whether entry k delivers the gradient of a whole parameter, and may destroy it."""
    entry = plan.entries[k]
    assert isinstance(entry, Delivery)
    parameter, gradient = (plan.values[n] for n in (entry.parameter, entry.gradient))
    tensor = plan.values[plan.root(entry.parameter)].tensor
    return (
        plan.owns(k)
        and parameter.spec.dtype == gradient.spec.dtype
        and parameter.spec.size == gradient.spec.size
        and tensor is not None
        and plan.graph.tensors[tensor].places is None
    )


def table_sums(plan: Plan, schedule: Schedule, rule: TableRule) -> dict[str, TableSums]:
    """Returns the tables whose gradients are sums of rows, by name of the parameter.

    Args:
        plan: plan for a micro-batch of a training step.
        schedule: micro-batches and workers.
        rule: which tables have sums of rows.

    Raises:
        OptionError: if the update is lazy, but no table can have sums of rows.
    """
    runs = -(-schedule.batch // schedule.micro_batch)
    runs_of_each = -(-runs // schedule.workers)
    sums = {}
    for name, call in table_calls(plan).items():
        table = plan.values[name].spec
        selected = call.specs["at"].size
        most = min(selected * runs * rule.batches, table.shape[0])
        is_large = table.size >= LEAST_TABLE and FRACTION * most <= table.shape[0]
        if rule.lazy or (is_large and call.compiled is not None):
            sums[name] = TableSums(table, most, min(selected * runs_of_each, table.shape[0]))
    if rule.lazy and plan.parameters and not sums:
        raise OptionError(
            "lazy",
            "needs a table that trains and is only read by one GATHER or EMBEDDING_LOOKUP",
            "none",
            "Leave `lazy=` out.",
        )
    return sums


def table_calls(plan: Plan) -> dict[str, Call]:
    """Returns the calls that select rows for the gradients of whole tables, by parameter."""
    if not any(isinstance(e, Call) and e.kernel.row_sums for e in plan.entries):
        return {}
    bases = {value.base for value in plan.values.values()}
    calls = {}
    for name, k in sole_calls(plan).items():
        call, gradient = plan.entries[k], plan.gradients[name]
        if not isinstance(call, Call) or call.kernel.row_sums is None:
            continue
        is_view = gradient in bases or plan.values[gradient].base is not None
        if not is_view and call.kernel.row_sums.fits(call.attrs, call.specs):
            calls[name] = call
    return calls


def by_rows(plan: Plan, tables: Collection[str]) -> Plan:
    """Returns the plan with the gradients of tables added to sums of rows by their deliveries."""
    if not tables:
        return plan
    calls = sole_calls(plan)
    entries: list[Call | Delivery | None] = list(plan.entries)
    values = dict(plan.values)
    for k, entry in enumerate(plan.entries):
        if isinstance(entry, Delivery) and entry.parameter in tables:
            call = plan.entries[calls[entry.parameter]]
            assert isinstance(call, Call), "a call selects the rows"
            entries[calls[entry.parameter]] = None
            entries[k] = replace(entry, call=call, by_rows=True)
            gradient = values[entry.gradient]
            none = TensorSpec((0, *gradient.spec.shape[1:]), gradient.spec.dtype)
            values[entry.gradient] = replace(gradient, spec=none)
    return replace(plan, entries=tuple(e for e in entries if e is not None), values=values)
