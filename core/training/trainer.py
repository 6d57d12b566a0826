"""Trains a model: epochs of steps over data, with validation after each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from odt.core.data.protocol import Data, SampleOrder
from odt.core.lowering.lower import file_batch
from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.budget.fit_budget import fit_budget
from odt.core.planning.budget.forecast import DATA_PAGES
from odt.core.planning.computation import Computation, Plans
from odt.core.planning.plan import Plan
from odt.core.recipe.works import training_and_validation
from odt.core.runtime.engine import Engine, Look
from odt.core.runtime.parameters import Optimizer, Parameters
from odt.core.runtime.runtime import Runtime
from odt.core.storage.closing import Closing
from odt.core.training.best_epoch import Best
from odt.core.training.frozen_cache import CachePolicy, FrozenCache, cache_size, split_frozen
from odt.core.training.passes import Metrics, Pass, Result, evaluate, predict
from odt.kernels.opdef import Array
from odt.kernels.registry import find_optimizer


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """What training takes, in bytes.

    Attributes:
        parameters: copies of what is trained.
        slots: optimizer state.
        gradients: where micro-batches add up; 0 if each weight is updated at once.
        arena: of all workers together.
        separate: what the arenas' values would take if each had its own memory.
        best: a copy of the best epoch's weights.
    """

    parameters: int
    slots: int
    gradients: int
    arena: int
    separate: int
    best: int = 0

    @property
    def total(self) -> int:
        return self.parameters + self.slots + self.gradients + self.arena + self.best


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch's results; `number` is 1 for the first."""

    number: int
    training: Result
    validation: Result | None


@dataclass(slots=True)
class Watch:
    """What a caller wants to know or say while training runs.

    Attributes:
        step: called after each step with the epoch's number, the step's in it, and the loss.
        stop: asked after each step; True ends training after it.
    """

    step: Callable[[int, int, float], None] = lambda epoch, step, loss: None
    stop: Callable[[], bool] = lambda: False


class SampleOrders(Protocol):
    """The order of the training samples in each epoch."""

    def order(self, epoch: int) -> SampleOrder: ...


class Trainer(Closing):
    """A model ready to train: planned, its memory allocated.

    Attributes:
        graph: as in the file.
        info: loss, optimizer, batch size, what trains; with the loss that the output decided.
        loss: the first loss's name.
        parameters: weights and optimizer state.
        runtime: schedule, and the specs of a sample.
        best: the best epoch so far, where there is validation.
        predicted: bytes by which the process grows at most, where a budget was given.
    """

    def __init__(
        self,
        graph: Graph,
        info: TrainingInfo,
        *,
        micro_batch: int | None = None,
        workers: int | None = None,
        budget: int | None = None,
        metrics: Metrics | None = None,
        outputs: bool = False,
        keep: CachePolicy | None = None,
        keep_best: bool = False,
    ) -> None:
        """Plans and allocates.

        Args:
            graph: as in the file.
            info: complete.
            micro_batch: samples that a program runs at once; None chooses.
            workers: threads; None chooses.
            budget: bytes that training may take; None for as many as it takes.
            metrics: to measure while training and in validation.
            outputs: keep the outputs of training steps too, to be looked at.
            keep: what to keep of the frozen part; data must then come from `frozen`.
            keep_best: keep the best epoch's weights.

        Raises:
            UnsupportedError, OptionError: if the model cannot be trained so.
        """
        self.graph = graph
        self.metrics = metrics or {}
        computation, validation = training_and_validation(
            graph, info, outputs=outputs or bool(self.metrics)
        )
        self.loss = computation.losses[0].name
        self.info = info if info.output_losses else replace(info, loss=self.loss)
        self._budget, self._keep, reserve = budget, keep, 0
        self._plans = plans = Plans(graph)
        runs = (computation, validation)
        if keep:
            runs = split_frozen(plans, runs)
            reserve = cache_size(plans, runs[0], info.batch_size, keep).resident
        self._end = runs[0].begin
        plan = plans.at(computation, file_batch(graph))[0]
        trained = [i for i in (plan.values[n].tensor for n in plan.parameters) if i is not None]
        copies = sum(plan.graph.tensors[i].spec.nbytes for i in trained) if keep_best else 0
        reserves = {"a cache": reserve, "a copy of the best weights": copies}
        way = fit_budget(plans, runs, info, budget, micro_batch, workers, reserves=reserves)
        self.predicted = None if budget is None else way.peak
        self.parameters = Parameters(plan.graph, trained, _optimizer(info), info.sparse)
        self.runtime = Runtime(way.plans, runs, self.parameters, way.schedule)
        self._training, self._validation = self.runtime.engines
        self._accumulating: Engine | None = None
        self._predicting: Engine | None = None
        self.best = Best(self.parameters.tensors if keep_best else {})

    def fit(
        self,
        data: Data,
        orders: SampleOrders,
        *,
        epochs: int,
        validation: SampleOrder = (),
        watch: Watch | None = None,
        start: int = 1,
        skip: int = 0,
        patience: int | None = None,
    ) -> Iterator[Epoch]:
        """Trains; yields after each epoch. Samples that do not fill a batch are left out.

        Args:
            data: training and validation samples.
            orders: which samples an epoch uses, in what order.
            epochs: how many; the last has this number.
            validation: samples to measure after each epoch.
            watch: called back after each step.
            start: the number of the first epoch.
            skip: batches of the first epoch that are done already; its figures are of the rest.
            patience: epochs without a better one after which training ends.

        Raises:
            TrainingError: if the loss is no longer finite.
            DataError: if data holds values that no loss can use.
        """
        watch = watch or Watch()
        reduction, batch = self.info.reduction, self.info.batch_size
        for number in range(start, epochs + 1):
            order = orders.order(number)
            run = Pass(self._training, data, order, reduction, self.metrics)
            stopped = False
            for k in range(skip if number == start else 0, len(order) // batch):
                watch.step(number, k + 1, run.step(k * batch, batch))
                stopped = watch.stop()
                if stopped:
                    break
            checked = None
            if len(validation) and not stopped:
                checked = self.evaluate(data, validation)
                self.best.see(number, checked.loss)
            yield Epoch(number, run.result(), checked)
            if stopped or (patience is not None and self.best.waited >= patience):
                return

    @property
    def caches(self) -> bool:
        """Whether data must come from `frozen`."""
        return self._keep is not None

    def frozen(self, data: Data, targets: Data, parts: Sequence[range]) -> FrozenCache:
        """The data of a trainer that was told what to keep; arguments are those of FrozenCache.

        Raises:
            OptionError: if there is no room.
        """
        assert self._keep, "nothing was to be kept"
        computation, schedule = Computation(end=self._end), self.runtime.schedule
        cache = FrozenCache(self._plans, computation, self._keep, schedule, data, targets, parts)
        if self._budget is not None:
            cache.limit_mapped(DATA_PAGES)
        return cache

    def step(
        self, data: Data, samples: int, *, update: bool = True, look: Look | None = None
    ) -> float:
        """One step on the first samples of data; gives their loss before it.

        Args:
            samples: at most a batch.
            update: False computes the loss only.
            look: sees the outputs of each micro-batch.

        Raises:
            TrainingError: if the loss is not finite.
        """
        engine = self._training if update else self._validation
        run = Pass(engine, data, range(samples), self.info.reduction, {}, look)
        return run.step(0, samples)

    def batch(self, data: Data, samples: int, *, update: bool) -> Result:
        """Loss and metrics of the first samples of data, and a training step if `update`."""
        engine = self._training if update else self._validation
        run = Pass(engine, data, range(samples), self.info.reduction, self.metrics)
        run.step(0, samples)
        return run.result()

    def accumulate(self, data: Data, samples: int, scale: float = 1.0) -> float:
        """Adds the gradients of a batch to those that `apply_gradients` has not used yet.

        Args:
            data: whose first samples are the batch.
            samples: at most a batch.
            scale: of the loss, and so of its gradients.

        Returns:
            The loss, times the scale.

        Raises:
            TrainingError: if the loss is not finite; all accumulated gradients are discarded.
        """
        if self._accumulating is None:
            engine = self._training
            if engine.at_once:
                engine = self.runtime.engine(engine.computation, keep_gradients=True)
            self._accumulating = engine
        run = Pass(self._accumulating, data, range(samples), self.info.reduction, {})
        return run.accumulate(samples, scale)

    def apply_gradients(self) -> None:
        """One update by the accumulated gradients, which are zero after that."""
        if self._accumulating is not None:
            self._accumulating.apply()

    @property
    def gradients(self) -> Mapping[int, Array]:
        """The accumulated gradients by tensor; nothing where there are none."""
        return {} if self._accumulating is None else self._accumulating.gradients

    def predict(self, data: Data, order: SampleOrder) -> Iterator[list[Array]]:
        """The outputs of samples, batch after batch; the arrays are reused."""
        if self._predicting is None:
            self._predicting = self.runtime.engine(Computation(outputs=True))
        return predict(self._predicting, data, order, self.runtime.output_specs)

    def evaluate(self, data: Data, order: SampleOrder, *, rest: bool = False) -> Result:
        """Loss and metrics on samples, without training.

        Args:
            data: the samples.
            order: their numbers.
            rest: whether a last batch that is not full counts; without it, it is left out as
                onert does, unless it is all there is.
        """
        rest = rest or len(order) < self.info.batch_size
        return evaluate(self._validation, data, order, self.info.reduction, self.metrics, rest=rest)

    @property
    def plan(self) -> Plan:
        """What a micro-batch of a training step computes."""
        return self._training.plan

    def weights(self) -> dict[int, Array]:
        """What has been trained, by tensor index."""
        return dict(self.parameters.tensors)

    def memory(self) -> MemoryReport:
        """What has been allocated."""
        schedule, plan = self.runtime.schedule, self._training.memory
        return MemoryReport(
            parameters=self.parameters.nbytes,
            slots=self.parameters.slot_nbytes,
            gradients=self._training.gradient_nbytes,
            arena=self.runtime.arena_nbytes,
            separate=plan.separate * schedule.workers,
            best=self.best.nbytes,
        )

    def close(self) -> None:
        """Ends the worker threads."""
        self.runtime.close()


def _optimizer(info: TrainingInfo) -> Optimizer:
    rule = find_optimizer(info.optimizer)
    return Optimizer(rule, rule.attrs(**info.hyper_parameters), info.learning_rate)
