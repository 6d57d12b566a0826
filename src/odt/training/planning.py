"""Forecast of training memory, and a test of whether a model can be trained."""

from typing import Any

from odt.core.planning.budget.fit_budget import fit_budget
from odt.core.planning.computation import Plans
from odt.core.recipe.computations import training_and_validation, with_integer_weights
from odt.core.recipe.trainability import trainability
from odt.core.training.random_data import random_data
from odt.core.training.self_test import self_test, verdict
from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.models.model import Model, Path, file_of, lowered_of
from odt.training.trainer import Trainer


@dataclass(frozen=True, slots=True)
class MemoryForecast:
    """Memory that training needs, in bytes, without Python and its modules.

    Attributes:
        peak: peak memory.
        parameters: copies of the trainable weights.
        optimizer: optimizer state.
        gradients: accumulated gradients; 0 if each weight is updated as soon as its gradient is
            complete.
        arenas: activations, their gradients and workspace of all workers.
        micro_batch: samples that a worker computes at once.
        workers: number of worker threads.
    """

    peak: int
    parameters: int
    optimizer: int
    gradients: int
    arenas: int
    micro_batch: int
    workers: int


def plan(model: Model | Path, **options: Any) -> MemoryForecast:
    """Plans the memory of training, without allocating it.

    Args:
        model: a model or the path of its file.
        options: arguments of Trainer, except cache_frozen; the command odt plan shows the memory
            of a cache.

    Raises:
        UnsupportedError: if the model cannot be trained.
        OptionError: if options contradict each other or the model.
    """
    if options.get("cache_frozen"):
        raise OptionError(
            "cache_frozen", "must be left out", options["cache_frozen"], "Use the command odt plan."
        )
    micro_batch, workers = options.get("micro_batch"), options.get("workers")
    trainer = Trainer(model, **options)
    recipe = trainer.recipe
    plans = Plans(trainer.with_frozen_integers(recipe.graphs))
    parts = training_and_validation(plans.graphs, recipe.info)
    plans = with_integer_weights(plans, parts[0], recipe.info)
    budget = trainer.memory_budget
    forecast = fit_budget(plans, parts, recipe.info, budget, micro_batch, workers)
    return MemoryForecast(
        forecast.peak,
        forecast.parameters,
        forecast.slots,
        forecast.gradients,
        forecast.arena,
        forecast.schedule.micro_batch,
        forecast.schedule.workers,
    )


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of `check`; true if the model can be trained.

    Attributes:
        trains: True, False, or None if unknown.
        findings: one line for each test, with its result.
    """

    trains: bool | None
    findings: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.trains is True


def check(model: Model | Path, *, seed: int = 0, **options: Any) -> CheckResult:
    """Tests gradients and one training step on a batch of random samples, in float64.

    Args:
        model: a model or the path of its file.
        seed: random seed of the samples.
        options: arguments of Trainer.

    Raises:
        OptionError: if options contradict each other or the model.
    """
    source = model if isinstance(model, Model) else Model(file_of(model))
    unsupported = lowered_of(source).graphs.unsupported
    if unsupported:
        return CheckResult(False, tuple(map(str, unsupported)))
    with Trainer(source, **options) as trainer:
        engine, recipe = trainer.build(), trainer.recipe
        blocked = trainability(recipe.graph, engine.info, engine.plan).blocked
        data = random_data(engine.runtime, seed)
    findings = self_test(recipe.graphs, engine.info, data, seed=seed)
    texts = tuple(f"{f.what}: {f.detail}" for f in findings)
    return CheckResult(False if blocked else verdict(findings), texts)
