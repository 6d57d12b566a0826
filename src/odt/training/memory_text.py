"""The memory that training has allocated, as text: what `odt check` and `odt train` print."""

from collections.abc import Collection

from odt.core.planning.plan import Call, Plan
from odt.core.planning.schedule import Schedule
from odt.core.training.frozen_cache import CachePolicy
from odt.core.training.results import MemoryReport
from odt.kernels.rows.opdef import Array, TensorSpec
from odt.text import quantity


def trained_line(trained: Collection[Array | TensorSpec]) -> str:
    """Formats the number of parameters that train."""
    values, count = sum(t.size for t in trained), len(trained)
    return f"trains: {values:,} parameters in {quantity(count, 'tensor')}"


def precision_line(plan: Plan) -> str:
    """Formats how many products round their factors to bfloat16."""
    calls = [e for e in plan.entries if isinstance(e, Call)]
    products = [c for c in calls if c.kernel.compiled and c.kernel.compiled.bf16]
    rounding = sum(c.rounds for c in products)
    return f"precision: bf16 in {rounding} of {len(products)} products of layers and matrices"


def memory_block(memory: MemoryReport, schedule: Schedule) -> str:
    """Formats the memory that training has allocated, in bytes."""
    workers = quantity(schedule.workers, "worker")
    reused = memory.arena / memory.separate if memory.separate else 1.0
    split = "not split" if schedule.micro_batch == schedule.batch else "split into samples"
    rows = {
        "parameters": (memory.parameters, ""),
        "optimizer": (memory.slots, ""),
        "gradients": (
            memory.gradients,
            "accumulated until the batch is done"
            if memory.gradients
            else "in the arena: immediate update of each weight",
        ),
        "arena": (
            memory.arena,
            f"{workers}, micro-batch {schedule.micro_batch}; "
            f"{100 * reused:.0f} % of the size without reuse",
        ),
        "packed": (memory.packed, "weights in the layout of the kernels, packed once per step"),
        "best": (memory.best, "copy of the trained weights of the best epoch"),
        "prepared": (memory.prepared, "batches that are augmented for the next steps"),
        "teacher": (memory.taught, "outputs of the teacher for all samples"),
        "kept": (memory.kept, "outputs that `metrics=auc` keeps until the end of an epoch"),
        "total": (memory.total, schedule.why and f"the batch is {split}: {schedule.why}"),
    }
    optional = ("packed", "best", "prepared", "teacher", "kept")
    lines = [
        f"- {name:<10} = {n:>13,} bytes  {note}"
        for name, (n, note) in rows.items()
        if n or name not in optional
    ]
    return "\n".join(["== memory ==", *(line.rstrip() for line in lines), "=" * 12])


def describe_cache(policy: CachePolicy, nbytes: int) -> str:
    """Describes the size of a cache: samples × bytes."""
    n = policy.samples
    place = "on disk" if policy.on_disk else "in memory"
    return f"{n:,} samples × {nbytes // n:,} bytes = {nbytes:,} bytes {place}"
