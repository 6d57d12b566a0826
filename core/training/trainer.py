"""Trains a model: epochs of steps over data, with validation after each."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from odt.collector import paused_collector
from odt.core.data.protocol import Data, SampleOrder, SampleOrders, Scales, scales_of
from odt.core.data.sample_weights import Weighting
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.budget.choose_plans import choose_plans
from odt.core.planning.computation import Computation, Plans, usual_plan
from odt.core.planning.gradient_sums import table_calls
from odt.core.planning.plan import Plan
from odt.core.planning.step_mode import Update
from odt.core.recipe.computations import with_stored_weights
from odt.core.runtime.batch import Look
from odt.core.runtime.engine import Engine
from odt.core.runtime.optimizer import optimizer_of
from odt.core.runtime.parameters import Parameters
from odt.core.runtime.runtime import Runtime
from odt.core.storage.closing import Closing
from odt.core.storage.mapped_pages import DATA_PAGES
from odt.core.training.best_epoch import Best
from odt.core.training.metrics import Metrics
from odt.core.training.monitor import Plateau, check_monitor, is_on_plateau
from odt.core.training.passes import (
    NO_TOTALS,
    NotFiniteLossError,
    Pass,
    Result,
    Seen,
    SeeOutputs,
    Totals,
    accumulate,
    bind_accumulate,
    computations,
    evaluate,
    predict,
    read_rows,
    unseen,
)
from odt.core.training.results import Epoch, MemoryReport
from odt.core.training.watch import Evaluate, Feed, Watch
from odt.errors import OptionError
from odt.kernels.rows.opdef import Array
from odt.kernels.rows.updatedef import is_lazy

if TYPE_CHECKING:
    from odt.core.training.frozen_cache import CachePolicy, FrozenCache
    from odt.core.training.undo import Undo

TRAINING, VALIDATION = range(2)  # computations of the runtime


@dataclass(slots=True, repr=False, eq=False)
class _Place:
    """A place in an epoch.

    Attributes:
        at: samples of the epoch's order before it.
        end: samples of the order that train.
        stopped: whether the watch ended training here.
    """

    at: int
    end: int
    stopped: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether the epoch has no samples left."""
        return self.at >= self.end


class Trainer(Closing):
    """Trains a model: plans, memory and optimizer state for a training run.

    Attributes:
        graph: graph as in the file.
        info: resolved training info, with the loss that the output determines.
        loss: name of the first loss.
        parameters: weights and optimizer state.
        runtime: schedule, and specs of a sample.
        best: the best epoch so far, if there is validation.
        schedule_steps: updates over which a schedule without its own length extends; 0 if unknown.
        scales: what may have weights.
        undo: undoes epochs in `train`; None for a learning rate that was given.
        weighting: identifies the weights of the samples, for checkpoints.
        seen: called after each batch of `evaluate`.
        counts: metrics of several calls of `evaluate` together.
        augment: text of the augmentations, for checkpoints.
        plateau: lowers the learning rate on a plateau; None for other schedules.
        predicted: peak memory of the process in bytes, if a budget was given.
        process: memory of the process in bytes before training, if a budget was given.
    """

    @paused_collector()
    def __init__(
        self,
        graph: Graph | LoweredGraphs,
        info: TrainingInfo,
        *,
        micro_batch: int | None = None,
        workers: int | None = None,
        budget: int | None = None,
        metrics: Metrics | None = None,
        outputs: bool = False,
        cache: "CachePolicy | None" = None,
        keep_best: bool = False,
        monitor: str = "val_loss",
        scales: Scales = Scales.BATCH,
        reserves: Mapping[str, int] | None = None,
        process: int = 0,
    ) -> None:
        """Makes plans and allocates memory.

        Args:
            graph: graph as in the file, or the lowered graphs of a recipe.
            info: resolved training info.
            micro_batch: samples that a worker computes at once; None to choose.
            workers: number of threads; None to choose.
            budget: bytes that the process may take; None for no limit.
            metrics: metrics of training and validation.
            outputs: whether to compute the outputs of training steps too, for `look`.
            cache: policy of the cache of the frozen part, whose data come from `frozen`; None for
                no cache.
            keep_best: whether to keep the best epoch's weights.
            monitor: name of the value by which epochs are compared.
            scales: what may have weights.
            reserves: bytes for other uses, by keys of LEAVE_OUT in fit_budget.
            process: bytes of the process before training.

        Raises:
            UnsupportedError: if the model has unsupported operators.
            OptionError: if the model cannot be trained with these options.
        """
        self._plans = Plans(graph)
        self.graph = self._plans.graph
        self.metrics = metrics or {}
        self.seen: Seen = unseen
        self.counts: Totals = NO_TOTALS
        check_monitor(monitor, self.metrics)
        runs = computations(self._plans.graphs, info, self.metrics, outputs=outputs)
        computation = runs[0]
        self.loss = computation.losses[0].name
        self.info = info if info.output_losses or info.loss else replace(info, loss=self.loss)
        self._budget = budget
        self.process = process
        self._policy = cache
        cached = 0  # bytes
        if cache:
            from odt.core.training.frozen_cache import cache_size, split_frozen

            runs = split_frozen(self._plans, runs)
            cached = cache_size(self._plans, runs[0], info.batch_size, cache).resident
        self._end = runs[0].begin
        self.parameters, nbytes = self._make_parameters(computation, info, micro_batch, workers)
        sizes = {"a cache": cached, "a copy of the best weights": nbytes if keep_best else 0}
        self._reserves = sizes | dict(reserves or {})
        self._runs = runs
        self.scales = scales
        self.weighting = Weighting()
        self._allocate(micro_batch, workers)
        self.best = Best(self.parameters.state if keep_best else {}, monitor)
        self.undo: Undo | None = None
        self.augment = ""
        self.schedule_steps = 0
        self.plateau: Plateau | None = None
        if is_on_plateau(info.schedule):
            self.plateau = Plateau(info.schedule, monitor)

    def _make_parameters(
        self,
        computation: Computation,
        info: TrainingInfo,
        micro_batch: int | None,
        workers: int | None,
    ) -> tuple[Parameters, int]:
        """Returns the parameters that a computation trains, and their size in bytes."""
        self._plans = with_stored_weights(self._plans, computation, info)
        plan = usual_plan(self._plans, computation, info.batch_size, micro_batch, workers)
        trained = [i for i in (plan.values[n].tensor for n in plan.parameters) if i is not None]
        parameters = Parameters(
            plan.graph,
            trained,
            optimizer_of(info),
            sparse=info.sparse,
            rates=info.rates,
            ema=info.ema,
            followed=plan.followed(info.quant_ranges),
            statistics=plan.statistics,
            integers=self._plans.integers,
            rounded=self._plans.rounded,
            tables=[i for n in table_calls(plan) if (i := plan.values[n].tensor) is not None],
        )
        return parameters, sum(plan.graph.tensors[i].spec.nbytes for i in trained)

    def _allocate(self, micro_batch: int | None, workers: int | None) -> None:
        """Chooses plans and schedule, and binds programs to memory."""
        runs = tuple(run.scaled(self.scales) for run in self._runs)
        plans, schedule, self.predicted = choose_plans(
            self._plans,
            runs,
            self.info,
            self._budget,
            micro_batch,
            workers,
            self._reserves,
            self.process,
        )
        # A budget was checked with the plans of all computations.
        planned = 1 if self.predicted is None else None
        self.runtime = Runtime(
            plans,
            runs,
            self.parameters,
            schedule,
            keep_gradients=self.info.keeps_gradients,
            batches=self.info.accumulate,
            planned=planned,
        )
        self._training = self.runtime.engine_of(TRAINING)
        self._accumulating: Engine | None = None
        self._predicting: Engine | None = None
        # These validate finer weights, without the cache, or with outputs.
        self._evaluators: dict[Computation, Engine] = {}

    def weigh(self, scales: Scales) -> None:
        """Plans again for finer weights, if they are; parameters are not changed.

        Raises:
            OptionError: if gradients are accumulated.
        """
        if scales > self.scales:
            self.check_no_gradients("sample_weight")
            self.scales = scales
            self._allocate_again()

    def use(self, graphs: LoweredGraphs) -> None:
        """Plans again for the same graph with other constants; parameters are not changed."""
        self._plans = self._plans.of(graphs)
        self.graph = self._plans.graph
        self._allocate_again()

    def _allocate_again(self) -> None:
        schedule = self.runtime.schedule
        self.runtime.close()
        self._allocate(schedule.micro_batch, schedule.workers)

    def check_no_gradients(self, field: str) -> None:
        """Raises OptionError for an argument that must not be given with accumulated gradients."""
        if self.gradients:
            raise OptionError(field, "must be given while no gradients are accumulated", "some")

    def train(
        self,
        data: Data,
        orders: SampleOrders,
        *,
        epochs: int,
        validation: SampleOrder = (),
        validate_rest: bool = False,
        watch: Watch | None = None,
        start: int = 1,
        skip: int = 0,
        patience: int | None = None,
        drop_last: bool = True,
        max_steps: float = math.inf,
        max_seconds: float = math.inf,
        feed: Feed | None = None,
        evaluate: Evaluate | None = None,
    ) -> Iterator[Epoch]:
        """Trains; yields after each epoch.

        Args:
            data: training and validation samples.
            orders: order of the training samples in each epoch.
            epochs: number of the last epoch.
            validation: samples to validate on after each epoch.
            validate_rest: validates on a last batch that is not full even with `drop_last`.
            watch: sees the steps, and may end training.
            start: number of the first epoch.
            skip: steps of the first epoch to skip, because they were completed before a resume.
            patience: epochs without improvement after which training stops early.
            drop_last: whether to leave out a last batch that is not full, as onert_train does.
                Otherwise its loss is the mean over its samples, an epoch's that over all samples.
            max_steps: number of updates, from the first epoch, after which training ends.
            max_seconds: time after which training ends.
            feed: prepares the training samples; None to read them from `data`.
            evaluate: validates; None for the method `evaluate`.

        Raises:
            TrainingError: if the loss is not finite; with `undo`, if it is not before the epoch
                either.
            DataError: if data holds values that no loss can use.
        """
        watch = watch or Watch()
        evaluate = evaluate or self.evaluate
        reduction, batch = self.info.reduction, self.info.step_samples
        deadline = time.monotonic() + max_seconds

        def ended() -> bool:
            return self.parameters.step >= max_steps or time.monotonic() >= deadline

        for number in range(start, 1 if ended() else epochs + 1):
            order = orders.order(number)
            end = len(order) // batch * batch if drop_last else len(order)
            place = _Place(batch * skip if number == start else 0, end)
            if self.undo and not place.at:
                self.undo.keep()
            source = data if feed is None else feed.epoch(number, order, place.at, end)
            numbers = order if feed is None else range(len(order))  # of the samples in `source`
            run = Pass(self._training, source, numbers, reduction, self.metrics)
            is_worse = False
            result: Result | None = None
            try:
                self._run_steps(run, number, place, watch, ended)
                if place.is_complete or not place.stopped:
                    if len(validation):
                        rest = validate_rest or not drop_last
                        result = evaluate(data, validation, rest=rest)
                    is_worse = bool(self.undo and self.undo.is_worse(result))
            except NotFiniteLossError:
                if self.undo is None:
                    raise
                self.undo.before.restore()
                self._check_finite(data, order[place.at : min(place.at + batch, end)])
                is_worse = True
            epoch = Epoch(number, run.result(), result, is_worse)
            if is_worse:
                from odt.core.training.undo import DIVISOR

                assert self.undo is not None, "without it, no epoch is judged"
                self.undo.before.restore()
                self.set_rate(self.info.learning_rate / DIVISOR)
                self.best.waited += 1
            elif not place.stopped or place.is_complete:
                self._compare(epoch, complete=place.is_complete)
            yield epoch
            if place.stopped or ended() or (patience is not None and self.best.waited >= patience):
                return

    def _run_steps(
        self, run: Pass, number: int, place: _Place, watch: Watch, ended: Callable[[], bool]
    ) -> None:
        """Runs the steps of epoch `number` from a place on, until its end, a stop or a limit."""
        batch = self.info.step_samples
        while place.at < place.end and not place.stopped and not ended():
            samples = min(batch, place.end - place.at)
            loss = run.step(place.at, samples)
            place.at += samples
            if self.undo:
                self.undo.see(loss, samples)
            watch.step(number, -(-place.at // batch), loss)  # a last batch may not be full
            place.stopped = watch.stop()

    def _check_finite(self, data: Data, samples: SampleOrder) -> None:
        """Raises TrainingError if the loss of samples is not finite: then the data are at fault."""
        batch = self.info.batch_size
        for first in range(0, len(samples), batch):
            self.step(data, samples[first : first + batch], update=False)

    def set_rate(self, rate: float) -> None:
        """Sets the learning rate."""
        assert self.parameters.optimizer is not None, "a trainer has one"
        self.parameters.optimizer.learning_rate = rate
        self.info = replace(self.info, learning_rate=rate)

    def _compare(self, epoch: Epoch, *, complete: bool) -> None:
        """Compares the epoch with earlier ones, if it has the monitored value."""
        if self.plateau and complete:
            assert self.parameters.optimizer is not None, "a trainer has one"
            self.plateau.see(epoch.logs, self.parameters.optimizer)
        if self.best.monitor.name in epoch.logs:
            with self.parameters.averaged():
                self.best.see(epoch.number, epoch.logs)

    def start_schedule(self, steps: int) -> None:
        """Resolves the schedule of the learning rate.

        Args:
            steps: number of remaining updates.
        """
        optimizer = self.parameters.optimizer
        assert optimizer is not None, "a trainer has one"
        if self.info.schedule:
            self.schedule_steps = self.parameters.step + steps
            rate = optimizer.learning_rate
            optimizer.schedule = self.info.schedule.resolve(rate, self.schedule_steps)

    @property
    def caches(self) -> bool:
        """Whether data must come from `frozen`."""
        return self._policy is not None

    def frozen(self, data: Data, targets: Data, parts: Sequence[range]) -> "FrozenCache":
        """Makes the data of a trainer with a cache; arguments as for FrozenCache.

        Raises:
            OptionError: if memory or disk is too small.
        """
        from odt.core.training.frozen_cache import FrozenCache

        assert self._policy, "there is no cache"
        frozen = Computation(end=self._end)
        schedule = self.runtime.schedule
        cache = FrozenCache(self._plans, frozen, self._policy, schedule, data, targets, parts)
        if self._budget is not None:
            cache.limit_mapped(DATA_PAGES)
        return cache

    def step(
        self,
        data: Data,
        samples: int | SampleOrder,
        *,
        update: bool = True,
        look: Look | None = None,
    ) -> float:
        """Runs one step; returns the loss of its samples before the update.

        Args:
            data: source of the samples.
            samples: numbers of the samples, at most those of a step; or how many, from the first.
            update: whether to update the weights; False only computes the loss.
            look: sees the outputs of each micro-batch.

        Raises:
            TrainingError: if the loss is not finite.
        """
        engine = self._training
        if not update:
            engine = self.runtime.engine_of(VALIDATION)
            if look is not None and engine.plan.rows:
                engine = self._evaluating(data, outputs=True)
        order = range(samples) if isinstance(samples, int) else samples
        return Pass(engine, data, order, self.info.reduction, {}, look).step(0, len(order))

    def batch(
        self, data: Data, samples: int, totals: Totals = NO_TOTALS, *, update: bool
    ) -> Result:
        """Returns loss and metrics of the first samples of data; runs a training step if `update`.

        The samples are also added to metrics of several batches, `totals`.
        """
        engine = self._training if update else self._evaluating(data)
        run = Pass(engine, data, range(samples), self.info.reduction, self.metrics, totals=totals)
        with nullcontext() if update else self.parameters.averaged():
            run.step(0, samples)
        return run.result()

    def accumulate(
        self,
        data: Data,
        samples: int | SampleOrder,
        scale: float = 1.0,
        look: Look | None = None,
    ) -> float:
        """Adds the gradients of a batch to those that `apply_gradients` has not used yet.

        Args:
            data: source of the samples.
            samples: numbers of the samples, at most a batch; or how many, from the first.
            scale: factor of the loss and its gradients.
            look: sees the outputs of each micro-batch.

        Returns:
            The scaled loss.

        Raises:
            TrainingError: if the loss is not finite; all accumulated gradients are discarded.
            OptionError: if the update is lazy, which accumulated gradients cannot be.
        """
        optimizer = self.parameters.optimizer
        if optimizer is not None and is_lazy(optimizer.attrs):
            rule = "must be off for gradients that are accumulated"
            raise OptionError("lazy", rule, "on", "Give `accumulate=` instead.")
        engine = self._accumulating or self._training
        if engine.plans.mode.update is Update.DURING or engine.plans.sums.tables:
            engine = self.runtime.engine(engine.computation, keep_gradients=True)
        self._accumulating = engine
        order = range(samples) if isinstance(samples, int) else samples
        return accumulate(engine, data, order, self.info.reduction, scale, look)

    def bind_accumulate(
        self, data: Data, samples: int, scale: float = 1.0
    ) -> Callable[[], float] | None:
        """Binds `accumulate` to the first samples of a source that has others in each step.

        Args:
            data: source of the samples, without weights.
            samples: number of samples, for which `accumulate` was called before.
            scale: factor of the loss and its gradients.

        Returns:
            A function without arguments, to be called while there are no accumulated gradients;
            None if a step is more than one compiled call.
        """
        assert self._accumulating is not None, "a batch was accumulated"
        return bind_accumulate(self._accumulating, data, samples, self.info.reduction, scale)

    def apply_gradients(self, *, keep: bool = False) -> None:
        """Updates the weights by the accumulated gradients, and resets these to zero.

        Args:
            keep: whether the arrays of `gradients` keep their values until the next batch.
        """
        if self._accumulating is not None:
            self._accumulating.apply(keep=keep)

    @property
    def gradients(self) -> Mapping[int, Array]:
        """The accumulated gradients by tensor index; empty if there are none."""
        return {} if self._accumulating is None else self._accumulating.gradients

    def predict(self, data: Data, order: SampleOrder) -> Iterator[list[Array]]:
        """Yields the outputs of samples, batch after batch, in arrays that are reused."""
        if self._predicting is None:
            self._predicting = self.runtime.engine(Computation(outputs=True))
        with self.parameters.averaged():
            yield from predict(self._predicting, data, order, self.runtime.output_specs)

    def evaluate(
        self,
        data: Data,
        order: SampleOrder,
        *,
        rest: bool = False,
        see_outputs: SeeOutputs | None = None,
    ) -> Result:
        """Returns loss and metrics on samples, without training.

        Args:
            data: source of the samples.
            order: numbers of the samples.
            rest: whether to include a last batch that is not full, if there are others.
            see_outputs: called for each micro-batch, by several threads at once.
        """
        rest = rest or len(order) < self.info.batch_size
        outputs = see_outputs is not None or not read_rows(self.counts)
        engine = self._evaluating(data, outputs=outputs)
        with self.parameters.averaged():
            return evaluate(
                engine,
                data,
                order,
                self.info.reduction,
                self.metrics,
                rest=rest,
                seen=self.seen,
                totals=self.counts,
                see_outputs=see_outputs,
            )

    def _evaluating(self, data: Data, *, outputs: bool = False) -> Engine:
        """The engine of validation, with weights or without the cache if the data need it.

        Args:
            data: source of the samples.
            outputs: whether the outputs are needed, not only what metrics read of their rows.
        """
        is_cached = not self.caches or getattr(data, "policy", None) is self._policy
        scales = scales_of(data.weights)
        usual = self.runtime.engine_of(VALIDATION)
        computation = usual.computation
        if not is_cached or scales > self.scales:
            computation = replace(computation, begin=()).scaled(scales)
        if outputs and usual.plan.rows:
            computation = replace(computation, rows=False)
        if computation == usual.computation:
            return usual
        if computation not in self._evaluators:
            self._evaluators[computation] = self.runtime.engine(computation)
        return self._evaluators[computation]

    @property
    def plan(self) -> Plan:
        """The plan of a micro-batch of a training step."""
        return self._training.plan

    def weights(self) -> dict[int, Array]:
        """The trained weights by tensor index, or their moving average if there is one."""
        return dict(self.parameters.averages()) or self.parameters.real()

    def restore_best(self) -> None:
        """Restores the weights of the best epoch, if they were kept."""
        if self.best.nbytes and self.best.epoch:
            self.best.restore()
            self.parameters.average.reset()

    def memory(self) -> MemoryReport:
        """Returns the memory allocated for training."""
        return MemoryReport.from_runtime(
            self.parameters, self.runtime, self._training, self.best.nbytes, self._reserves
        )

    def close(self) -> None:
        """Ends the worker threads."""
        self.runtime.close()
