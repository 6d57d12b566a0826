"""Memory that training takes and whether a model trains, without training it."""

from dataclasses import dataclass, replace
from typing import Any

from odt.core.lowering.lower import unsupported_nodes
from odt.core.planning.budget.fit_budget import fit_budget
from odt.core.planning.computation import Plans
from odt.core.recipe.computations import trainable_operators, training_and_validation
from odt.core.recipe.trainability import trainability
from odt.core.training.random_data import RandomData
from odt.core.training.self_test import DIFFERENCES, TESTED, self_test
from odt.errors import OptionError
from odt.kernels.registry import LOSSES
from odt.model import Model, Path, file_of
from odt.trainer import Trainer


@dataclass(frozen=True, slots=True)
class MemoryForecast:
    """Bytes that training takes beyond Python and its modules.

    Attributes:
        peak: the most at any time.
        parameters: copies of the weights that train.
        optimizer: optimizer state.
        gradients: accumulated gradients; 0 if each weight is updated as soon as its gradient is
            complete.
        arenas: activations, gradients and workspace of all workers.
        micro_batch: samples computed at once.
        workers: threads.
    """

    peak: int
    parameters: int
    optimizer: int
    gradients: int
    arenas: int
    micro_batch: int
    workers: int


def plan(model: Model | Path, **options: Any) -> MemoryForecast:
    """The memory that training takes; nothing is allocated for tensors.

    Args:
        model: a model or its path.
        options: as of Trainer; `odt plan --cache-frozen` shows what a cache takes.

    Raises:
        UnsupportedError, OptionError: if the model cannot be trained so.
    """
    if options.get("cache_frozen"):
        raise OptionError("cache_frozen: must be left out of plan, but got it. Use `odt plan`.")
    micro_batch, workers = options.get("micro_batch"), options.get("workers")
    trainer = Trainer(model, **options)
    recipe = trainer.recipe
    parts = training_and_validation(recipe.graph, recipe.info)
    budget = trainer.memory_budget
    found = fit_budget(Plans(recipe.graph), parts, recipe.info, budget, micro_batch, workers)
    return MemoryForecast(
        found.peak,
        found.parameters,
        found.slots,
        found.gradients,
        found.arena,
        found.schedule.micro_batch,
        found.schedule.workers,
    )


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Whether a model trains.

    Attributes:
        trains: True, False, or None if it cannot be told.
        findings: what was looked at, and the result, in words.
    """

    trains: bool | None
    findings: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.trains is True


def check(model: Model | Path, *, seed: int = 0, **options: Any) -> CheckResult:
    """Tests gradients and one training step on a batch of random samples, in float64.

    Args:
        model: a model or its path.
        seed: of the samples.
        options: as of Trainer.

    Raises:
        OptionError: if options contradict each other or the model.
    """
    source = model if isinstance(model, Model) else Model(file_of(model))
    refused = unsupported_nodes(file_of(source).graph)
    if refused:
        return CheckResult(False, tuple(map(str, refused)))
    with Trainer(source, **options) as trainer:
        engine, recipe = trainer.build(), trainer.recipe
        runtime, graph, info = engine.runtime, recipe.graph, engine.info
        operators = trainable_operators(graph, info)
        blocked = trainability(graph, engine.plan, operators, info.trainable_tensors).blocked
        draws = [LOSSES[name].draw for name, _ in runtime.losses]
        data = RandomData(runtime.input_specs, runtime.target_specs, draws, seed)
    tested = replace(info, batch_size=min(info.batch_size, TESTED))
    found = self_test(graph, tested, data, seed=seed)
    texts = tuple(f"{f.what}: {f.detail}" for f in found)
    if blocked or any(f.passed is False for f in found):
        return CheckResult(False, texts)
    return CheckResult(
        True if all(f.passed for f in found if f.what != DIFFERENCES) else None, texts
    )
