"""How a batch runs: who runs its micro-batches, and when their gradients are used."""

from collections.abc import Sequence
from enum import Enum

from odt.core.data.protocol import Scales
from odt.core.planning.cost import is_short
from odt.core.planning.gradient_sums import GradientSums
from odt.core.planning.output_loss import Loss
from odt.core.planning.plan import Plan
from odt.core.planning.schedule import Schedule
from odt.dataclass import dataclass
from odt.kernels.native.library import has_threads
from odt.kernels.rows.opdef import TensorSpec

MAX_BATCH_BYTES = 2**19  # bytes of inputs and targets in memory for a whole batch
WORD = 4  # bytes, of which copies take a multiple


class Loop(Enum):
    """Who runs the micro-batches of a batch."""

    THREADS = "threads"  # a thread of Python for each worker
    SIDE_BY_SIDE = "side by side"  # threads of the library, for one micro-batch of each worker
    WHOLE_BATCH = "whole batch"  # threads of the library, for all micro-batches by one call


class Update(Enum):
    """When parameters are updated."""

    NEVER = "never"  # there are no gradients
    DURING = "during the step"  # each parameter as soon as its gradient is complete
    AFTER = "after the step"


@dataclass(frozen=True, slots=True)
class StepMode:
    """How a batch runs.

    Attributes:
        loop: who runs the micro-batches.
        update: when parameters are updated; small ones after the step if workers meet.
        in_place: whether gradients are computed in the memory of their sums, because each worker
            has one micro-batch; otherwise they are added to the sums.
        batch_arrays: specs of the arrays of a whole batch by value of the plan, for `WHOLE_BATCH`.
    """

    loop: Loop
    update: Update
    in_place: bool
    batch_arrays: dict[str, TensorSpec]


def step_mode(
    plan: Plan, losses: Sequence[Loss], schedule: Schedule, sums: GradientSums, *, keep: bool
) -> StepMode:
    """Chooses how batches run.

    Args:
        plan: plan of a micro-batch.
        losses: its losses.
        schedule: micro-batches and workers.
        sums: where gradients are added up.
        keep: whether gradients are kept until the end of a step, for any schedule.
    """
    update = Update.NEVER
    if plan.parameters:
        update = Update.DURING if sums.immediate else Update.AFTER
    one_each = schedule.micro_batch * schedule.workers >= schedule.batch
    loop = Loop.THREADS
    batch_arrays: dict[str, TensorSpec] = {}
    alone = not sums.met(schedule.workers)
    if schedule.workers > 1 and has_threads() and alone and is_short(plan):
        batch_arrays = {} if update is Update.NEVER else arrays_of_batch(plan, losses, schedule)
        loop = Loop.WHOLE_BATCH if batch_arrays else Loop.SIDE_BY_SIDE
    return StepMode(loop, update, one_each and not keep, batch_arrays)


def arrays_of_batch(
    plan: Plan, losses: Sequence[Loss], schedule: Schedule
) -> dict[str, TensorSpec]:
    """Returns the specs of the arrays of a whole batch, by value of the plan.

    Empty if the arrays are too large, or a row is not a multiple of a word. Arrays have a row for
    each sample; the scale of a loss without weights has one row for all samples.

    Args:
        plan: plan of a micro-batch of a training step.
        losses: its losses.
        schedule: micro-batches and workers.
    """
    if plan.seen or plan.masks or plan.statistics:
        return {}
    pairs = zip(plan.scales, losses, strict=True)
    shared = {name for name, loss in pairs if loss.scales is Scales.BATCH}
    specs: dict[str, TensorSpec] = {}
    for name in (*plan.inputs, *plan.targets, *plan.scales):
        spec = plan.values[name].spec
        shape = (schedule.batch, spec.size // schedule.micro_batch)
        specs[name] = TensorSpec((1, spec.size) if name in shared else shape, spec.dtype)
    words = all(s.shape[1] * s.dtype.itemsize % WORD == 0 for s in specs.values())
    return specs if words and sum(s.nbytes for s in specs.values()) <= MAX_BATCH_BYTES else {}
