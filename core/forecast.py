"""What training will take, said before anything is allocated."""

from dataclasses import dataclass, replace

from odt.core.engine import Plans, Work
from odt.core.lifetimes import Lifetime, lifetimes, replacements
from odt.core.memory import MemoryPlan
from odt.core.plan import Call, Plan
from odt.core.schedule import Schedule
from odt.core.training_info import TrainingInfo
from odt.kernels.registry import find_optimizer


@dataclass(frozen=True, slots=True)
class Forecast:
    """Training's memory, in bytes, and what it comes from.

    Attributes:
        plans: of the model, to train by.
        schedule: micro-batches and workers.
        plan: of a micro-batch of a training step.
        memory: its memory plan.
        parameters: copies of what is trained.
        slots: optimizer state.
        gradients: where micro-batches add up; 0 if each weight is updated at once.
        arena: of all workers together; validation uses the same.
    """

    plans: Plans
    schedule: Schedule
    plan: Plan
    memory: MemoryPlan
    parameters: int
    slots: int
    gradients: int
    arena: int

    @property
    def total(self) -> int:
        return self.parameters + self.slots + self.gradients + self.arena


def forecast(
    plans: Plans, works: tuple[Work, ...], info: TrainingInfo, schedule: Schedule
) -> Forecast:
    """Adds up what a schedule takes.

    Args:
        plans: of the model.
        works: what runs, training first.
        info: its optimizer decides about slots.
        schedule: how the batch is cut.
    """
    size = schedule.micro_batch
    plan, memory = plans.at(works[0], size)
    gradients = plan.gradient_nbytes
    trained = sum(plan.values[name].spec.nbytes for name in gradients)
    wanted = sum(gradients.values())
    rule = find_optimizer(info.optimizer)
    slots = rule.slots(rule.attrs(**info.hyper_parameters))
    at_once = size == schedule.batch and schedule.workers == 1
    return Forecast(
        plans,
        schedule,
        plan,
        memory,
        parameters=trained + sum(n for p, n in gradients.items() if n < plan.values[p].spec.nbytes),
        slots=len(slots) * wanted,
        gradients=0 if at_once else wanted,
        arena=schedule.workers * max(plans.at(work, size)[1].nbytes for work in works),
    )


@dataclass(frozen=True, slots=True)
class Peak:
    """The step of a plan in which most is alive.

    Attributes:
        step: its label.
        phase: it belongs to.
        alive: values and their lifetimes, the largest first.
    """

    step: str
    phase: str
    alive: tuple[tuple[str, Lifetime], ...]


def peak(plan: Plan) -> Peak:
    """Where a plan needs most; a value that takes over another's memory stands for both."""
    alive = lifetimes(plan)
    for old in replacements(plan, alive).values():
        alive[old] = replace(alive[old], last=alive[old].last - 1)
    sizes = {name: plan.values[name].spec.nbytes for name in alive}

    def there(k: int) -> list[str]:
        return [n for n, life in alive.items() if life.first <= k <= life.last]

    k = max(range(len(plan.steps)), key=lambda k: sum(sizes[n] for n in there(k)))
    step = plan.steps[k]
    label = step.label if isinstance(step, Call) else f"{step.gradient} is taken"
    phase = step.phase.value if isinstance(step, Call) else "backward"
    largest = sorted(there(k), key=lambda n: -sizes[n])
    return Peak(label, phase, tuple((n, alive[n]) for n in largest))
