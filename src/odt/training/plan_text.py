"""The memory of training as text: what `odt plan` prints."""

from collections.abc import Mapping, Sequence

import numpy as np

from odt.core.model.graph import MAX_NAME, ranges
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.budget.forecast import Forecast, peak
from odt.core.planning.budget.savings import Saving
from odt.core.planning.lifetimes import BEFORE, Lifetime
from odt.core.planning.memory import MemoryPlan
from odt.core.planning.plan import Call, Plan
from odt.core.runtime.arena import make_arena
from odt.core.runtime.program import Program
from odt.errors import one_line
from odt.kernels.registry import OPTIMIZERS
from odt.text import quantity, size, table

SHOWN = 12  # values alive at the peak that are listed
# Other memory that training takes, a key of LEAVE_OUT in fit_budget → name of its line.
RESERVES = {
    "a copy of the best weights": "best",
    "a teacher's outputs": "teacher",
    "outputs kept for metrics": "kept",
}


def slots_of(info: TrainingInfo, plan: Plan) -> tuple[str, ...]:
    """Returns the names of the optimizer's state arrays, with their sizes if the sizes differ."""
    rule = OPTIMIZERS[info.optimizer]
    attrs = rule.attrs(**info.hyper_parameters)
    sizes: dict[str, int] = {}
    for p in plan.trained_specs.values():
        for slot, spec in rule.state(attrs, p).items():
            name = f"{slot} (8-bit)" if spec.dtype == np.uint8 else slot
            sizes[name] = sizes.get(name, 0) + spec.nbytes
    if info.ema:
        sizes["moving average"] = sum(p.nbytes for p in plan.trained_specs.values())
    uneven = rule.slot_specs is not None
    return tuple(f"{name} {size(n)}" if uneven else name for name, n in sizes.items())


def describe_calls(plan: Plan, memory: MemoryPlan) -> list[str]:
    """Describes the plan, its memory plan, and the calls of the program bound to it."""
    # The program is printed, not run: nothing takes its gradients.
    program = Program(plan, memory, make_arena(memory.nbytes), {}, lambda *_: ())
    return ["", "plan", str(plan), "", "memory plan", str(memory), "", "calls", str(program)]


def describe_schedule(forecast: Forecast) -> list[str]:
    """Describes how a batch is split into micro-batches."""
    schedule = forecast.schedule
    runs = -(-schedule.batch // schedule.micro_batch)
    parts = f"{runs} micro-batches of {schedule.micro_batch}" if runs > 1 else "one micro-batch"
    workers = quantity(schedule.workers, "worker")
    lines = [f"batch of {schedule.batch}: {parts}, on {workers}"]
    if schedule.why:
        lines.append(f"not split: {schedule.why}")
    return lines


def describe_ranges(plan: Plan, quant_ranges: str) -> list[str]:
    """Describes which ranges of activations move; no line for a model without ranges."""
    count = len({i for i, _ in ranges(plan.graph)})
    if not count:
        return []
    moving = len(plan.followed(quant_ranges))
    return [f"activation ranges: {moving} of {count} follow what training sees"]


def describe_memory(
    forecast: Forecast,
    info: TrainingInfo,
    reserves: Mapping[str, int],
    cache: str = "",
    process: int = 0,
) -> list[str]:
    """Describes the memory by purpose.

    Args:
        forecast: the memory that training will need.
        info: training info, with the optimizer.
        reserves: bytes for other uses, by keys of LEAVE_OUT in fit_budget.
        cache: description of the cache of the frozen layers; empty if there is none.
        process: bytes of the whole process at its peak; 0 for a C program.
    """
    slots = slots_of(info, forecast.plan)
    rows = [
        ("parameters", forecast.parameters, ""),
        ("optimizer", forecast.slots, f"{info.optimizer}: {', '.join(slots) or 'no state'}"),
        (
            "gradients",
            forecast.gradients,
            "accumulated until the batch is done"
            if forecast.gradients
            else "in the arena: immediate update",
        ),
        ("arenas", forecast.arena, f"{forecast.separate:,} bytes without reuse"),
    ]
    if forecast.packed:
        note = "weights in the layout of the kernels, packed once per step"
        rows.append(("packed", forecast.packed, note))
    if forecast.target is not None:
        note = f"{size(forecast.peak)} of static memory, without alignment and the stack"
        rows.append(("total", forecast.peak, note))
        cells = [(name, f"{nbytes:,} bytes", note) for name, nbytes, note in rows]
        return table(cells, right=(1,))
    rows += [
        ("constants", forecast.constants, "weights that are not trained, in the mapped model file"),
        ("data", forecast.data, "pages of the mapped data files; more without a budget"),
        ("other", forecast.overhead, "Python objects and libraries, estimated"),
    ]
    if forecast.dequantized:
        note = "first values of the weights that the file stores in another type"
        rows.append(("dequantized", forecast.dequantized, note))
    rows += [(RESERVES[use], n, use) for use, n in reserves.items() if n and use in RESERVES]
    if cache:
        rows += [
            ("frozen", forecast.frozen, "arenas of the frozen layers, in the first epoch only"),
            ("cache", reserves["a cache"], cache),
        ]
    rows.append(("peak", forecast.peak, f"{size(forecast.peak)}, without Python and its modules"))
    if cache:
        rows.append(("later", forecast.later, "peak of later epochs"))
    before = size(process - forecast.peak)
    note = f"{size(process)}, of which Python and its modules take {before}"
    rows.append(("process", process, note))
    cells = [(name, f"{nbytes:,} bytes", note) for name, nbytes, note in rows]
    return table(cells, right=(1,))


def memory_verdict(process: int, limit: int | None) -> str:
    """Describes the peak memory of a process, against its limit if it has one."""
    if limit is None:
        return f"The process takes about {size(process)} at its peak."
    if process > limit:
        peaks = f"peak about {size(process)}, but there are {size(limit)}"
        return f"Does not fit: {peaks}. `memory_budget=` trains in less."
    return f"Fits: peak about {size(process)} of {size(limit)}."


def describe_savings(savings: Sequence[Saving]) -> list[str]:
    """Describes the bytes that each technique saves."""
    rows = [(saving.name, f"{saving.nbytes:,} bytes", saving.note) for saving in savings]
    return ["", "memory saved by", *table(rows, right=(1,))] if rows else []


def describe_peak(plan: Plan) -> list[str]:
    """Describes the values alive at the peak of a worker's arena."""
    top = peak(plan)
    sizes = {name: plan.values[name].spec.nbytes for name, _ in top.alive}
    total = sum(sizes.values())
    rows = [("VALUE", "BYTES", "SHAPE", "FROM", "TO")]
    for name, life in top.alive[:SHOWN]:
        rows.append(
            (_name(plan, name), f"{sizes[name]:,}", str(plan.values[name].spec), *_ends(plan, life))
        )
    rest = top.alive[SHOWN:]
    if rest:
        rows.append((f"{len(rest)} more", f"{sum(sizes[n] for n, _ in rest):,}", "", "", ""))
    return [
        "",
        f"peak of the arena in the {top.phase} phase at {top.entry}: {total:,} bytes a worker",
        *table(rows, right=(1,)),
    ]


def _name(plan: Plan, name: str) -> str:
    """Names a value by its tensor, if it has one."""
    stem = name.removeprefix("d.")
    tensor = plan.values[stem].tensor if stem in plan.values else None
    if tensor is None:
        return name
    # A converter joins the names of merged tensors with semicolons.
    first = plan.graph.tensors[tensor].name.partition(";")[0]
    label = one_line(first, MAX_NAME) or stem
    return f"gradient of {label}" if stem != name else label


def _ends(plan: Plan, life: Lifetime) -> tuple[str, str]:
    """Names the first and the last entry of a lifetime."""
    return _entry_label(plan, life.first), _entry_label(plan, life.last)


def _entry_label(plan: Plan, k: int) -> str:
    """Names entry k of a plan; numbers outside of it are the data and the end of a step."""
    if k == BEFORE:
        return "the data"
    if k >= len(plan.entries):
        return "the end"
    entry = plan.entries[k]
    return entry.label if isinstance(entry, Call) else "its update"
