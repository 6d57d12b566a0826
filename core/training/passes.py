"""Passes over data: losses, metrics, predictions."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType

import numpy as np

from odt.core.data.protocol import Data, SampleOrder, Scales
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.computation import Computation
from odt.core.recipe.computations import training_and_validation
from odt.core.runtime.batch import Fill, Look, NotFiniteError
from odt.core.runtime.engine import Engine
from odt.core.runtime.program import Program, Samples
from odt.core.training.metrics import Metrics
from odt.dataclass import dataclass
from odt.errors import TrainingError
from odt.kernels.rows.metricdef import Metric
from odt.kernels.rows.opdef import Array, TensorSpec


class NotFiniteLossError(TrainingError):
    """Raised if a loss is NaN or infinite."""


Totals = Mapping[str, Metric]
NO_TOTALS: Totals = MappingProxyType({})
# Called with the number of samples that are done, and of all.
Seen = Callable[[int, int], None]


def new_totals(metrics: Metrics) -> Totals:
    """Returns metrics without samples, by name."""
    return {name: make() for name, make in metrics.items()}


def read_rows(totals: Totals) -> bool:
    """Whether metrics need not read the outputs, but only what `Plan.rows` is."""
    return all(metric.by_row for metric in totals.values())


def computations(
    graphs: LoweredGraphs, info: TrainingInfo, metrics: Metrics, *, outputs: bool = False
) -> tuple[Computation, Computation]:
    """The computations of a training step and of a validation step, as far as metrics need them.

    Args:
        graphs: the lowered graphs of the file.
        info: resolved training info.
        metrics: the metrics.
        outputs: whether others read the outputs of training steps, too.
    """
    rows = not outputs and read_rows(new_totals(metrics))
    return training_and_validation(graphs, info, outputs=outputs or bool(metrics), rows=rows)


def unseen(done: int, total: int) -> None:
    """Does nothing."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one pass over data.

    A step is a batch, or in training all batches of an update.

    Attributes:
        loss: mean of the losses of the steps; losses that are means are weighted by samples.
        metrics: name → value.
        steps: number of steps.
        seconds: time of the steps, including reading.
        spread: standard deviation of the losses of the steps; NaN for fewer than two.
    """

    loss: float
    metrics: dict[str, float]
    steps: int
    seconds: float
    spread: float = math.nan


class Pass:
    """One pass of an engine over data, which accumulates losses and metrics step by step.

    Attributes:
        losses, samples: of each step.
        seconds: time of the steps, including reading.

    Args:
        engine: the engine.
        data: source of the samples.
        order: numbers of the samples, in order.
        reduction: sum_over_batch_size or sum.
        metrics: metrics of the first output that has a loss.
        look: sees the outputs of each micro-batch.
        totals: metrics of several passes together.
    """

    def __init__(
        self,
        engine: Engine,
        data: Data,
        order: SampleOrder,
        reduction: str,
        metrics: Metrics,
        look: Look | None = None,
        totals: Totals = NO_TOTALS,
    ) -> None:
        self.engine = engine
        self.data = data
        self.order = order
        self.reduction = reduction
        # A loss without backward is a mean over all labels that count, not over those of batches.
        self._factors = None if engine.computation.backward else self._factors_of(order)
        self.metrics = new_totals(metrics)
        self._measured = (*self.metrics.values(), *totals.values())
        self.losses: list[float] = []
        self.samples: list[int] = []
        self.seconds = 0.0
        self._outer = look

    def step(self, first: int, samples: int) -> float:
        """Runs the step of samples [first, first + samples) of the order; returns its loss.

        More samples than a batch run batch by batch, and their gradients are accumulated.

        Raises:
            TrainingError: if the loss is not finite.
        """
        start = time.perf_counter()
        try:
            loss = self._run(first, samples)
        except NotFiniteError as e:
            raise NotFiniteLossError(
                f"step {len(self.losses) + 1}: the loss must be finite, but "
                f"{_label(self.engine, e.value)} is not{self._remedy()}"
            ) from None
        self.seconds += time.perf_counter() - start
        self.losses.append(loss)
        self.samples.append(samples)
        return loss

    def _run(self, first: int, samples: int) -> float:
        """Runs a step; returns its loss."""
        engine = self.engine
        look = self._look()
        factors = self._factors
        if factors is None:
            factors = self._factors_of(self.order[first : first + samples])
        scales = _scaled(engine.loss_scales(samples, self.reduction), factors)
        batch = engine.schedule.batch
        if samples <= batch:
            return engine.run(samples, scales, _filler(self.data, self.order, first), look)
        losses = [
            engine.accumulate(
                min(batch, samples - at),
                scales,
                _filler(self.data, self.order, first + at),
                look,
            )
            for at in range(0, samples, batch)
        ]
        engine.apply()
        return math.fsum(losses)

    def _factors_of(self, numbers: SampleOrder) -> Sequence[float]:
        return _label_factors(self.data, numbers, self.reduction)

    def result(self) -> Result:
        """Returns loss and metrics of the steps so far."""
        loss = self._mean() if self.losses else float("nan")
        values = {name: m.value() for name, m in self.metrics.items()}
        spread = float(np.std(self.losses, ddof=1)) if len(self.losses) > 1 else math.nan
        return Result(loss, values, len(self.losses), self.seconds, spread)

    def _mean(self) -> float:
        """Returns the mean loss of the steps, or of the samples if the last step has fewer."""
        if len(self.losses) == 1:
            return self.losses[0]
        if self.reduction == "sum" or self.samples[-1] == self.samples[0]:
            return float(np.mean(self.losses))
        *_, rest = self.samples
        batch = self.samples[0]
        return (sum(self.losses[:-1]) * batch + self.losses[-1] * rest) / sum(self.samples)

    def _look(self) -> Look | None:
        """Returns what sees the outputs of each micro-batch: the metrics, and `look`."""
        if not self._measured:
            return self._outer
        outer = self._outer
        lock = threading.Lock()
        first = self.engine.computation.losses[0].output

        def look(program: Program, at: int, count: int) -> None:
            with lock:
                for metric in self._measured:
                    if program.rows:
                        terms, best = program.rows
                        metric.update_rows(terms, best, program.targets[0].reshape(-1))
                    else:
                        metric.update(program.outputs[first], program.targets[0])
            if outer is not None:
                outer(program, at, count)

        return look

    def _remedy(self) -> str:
        """What to do about a loss that is not finite; names weights that were not finite before."""
        graph = self.engine.plan.graph
        tensors = self.engine.parameters.tensors
        bad = [i for i, a in tensors.items() if a.dtype.kind == "f" and not np.isfinite(a).all()]
        if bad and not self.losses:
            return f", because weights are not finite before it: {graph.label(bad[0])}"
        if self.engine.parameters.optimizer is None:  # a model that only evaluates
            return ". Check the weights of the model and the size of its inputs."
        return ". Give a smaller `learning_rate=`, or check the data with `check_data=True`."


def accumulate(
    engine: Engine,
    data: Data,
    order: SampleOrder,
    reduction: str,
    scale: float,
    look: Look | None = None,
) -> float:
    """Accumulates the gradients of samples; returns the scaled loss.

    Args:
        engine: the engine.
        data: source of the samples.
        order: numbers of the samples.
        reduction: sum_over_batch_size or sum.
        scale: factor of the loss and its gradients.
        look: sees the outputs of each micro-batch.

    Raises:
        TrainingError: if the loss is not finite.
    """
    factors = _label_factors(data, order, reduction)
    scales = [scale * s for s in _scaled(engine.loss_scales(len(order), reduction), factors)]
    try:
        return engine.accumulate(len(order), scales, _filler(data, order, 0), look)
    except NotFiniteError as e:
        raise _not_finite(engine, e) from None


def bind_accumulate(
    engine: Engine, data: Data, samples: int, reduction: str, scale: float
) -> Callable[[], float] | None:
    """Binds `accumulate` to the first samples of a source that has others in each step.

    Args:
        engine: the engine.
        data: source of the samples, without weights.
        samples: number of samples.
        reduction: sum_over_batch_size or sum.
        scale: factor of the loss and its gradients.

    Returns:
        A function that begins a new sum of gradients and returns the scaled loss; None if a step is
        more than one compiled call.
    """
    assert data.weights is None, "a bound step reads no weights"
    scales = [scale * s for s in engine.loss_scales(samples, reduction)]
    order = range(samples)

    def fill(arrays: Samples, at: int, count: int) -> None:
        data.read(order, arrays.inputs, arrays.targets)

    run = engine.bind(samples, scales, fill)
    if run is None:
        return None

    def step() -> float:
        try:
            return run()
        except NotFiniteError as e:
            raise _not_finite(engine, e) from None

    return step


def _not_finite(engine: Engine, error: NotFiniteError) -> NotFiniteLossError:
    label = _label(engine, error.value)
    return NotFiniteLossError(f"the loss must be finite, but {label} is not.")


def _label(engine: Engine, value: str) -> str:
    """Returns the label of a value's tensor; the name itself if it is no tensor."""
    plan = engine.plan
    tensor = plan.values[value].tensor if value in plan.values else None
    return value if tensor is None else plan.graph.label(tensor)


# Sees a sample: its number, loss, output and target.
Each = Callable[[int, float, Array, Array], None]
# Sees samples: their numbers, and the outputs of the model in arrays that are reused.
SeeOutputs = Callable[[SampleOrder, Sequence[Array]], None]


def evaluate(
    engine: Engine,
    data: Data,
    order: SampleOrder,
    reduction: str,
    metrics: Metrics,
    *,
    rest: bool,
    seen: Seen = unseen,
    totals: Totals = NO_TOTALS,
    each: Each | None = None,
    see_outputs: SeeOutputs | None = None,
) -> Result:
    """Computes losses and metrics over data.

    Args:
        engine: an engine without backward.
        data: source of the samples.
        order: numbers of the samples, in order.
        reduction: sum_over_batch_size or sum.
        metrics: metrics of the first output that has a loss.
        rest: whether to include a last batch that is not full; batches are then weighted by
            samples.
        seen: called after each batch with the number of samples done, and of all.
        totals: further metrics, of several passes together.
        each: called for each sample; the engine must then run single samples.
        see_outputs: called for each micro-batch, by several threads at once.
    """
    batch, total = engine.schedule.batch, len(order)
    output = engine.computation.losses[0].output
    first = samples = 0  # of the batch that runs, in the loop below

    def look(program: Program, at: int, count: int) -> None:
        if see_outputs is not None:
            see_outputs(order[first + at : first + at + count], program.outputs)
        if each is None:
            return
        assert count == 1, "the engine runs single samples"
        factor = 1 if reduction == "sum" else samples  # of the mean over the batch
        loss = factor * sum(float(a[0]) for a in program.losses)
        y, t = program.outputs[output], program.targets[0]
        each(int(order[first + at]), loss, y.reshape(-1), t.reshape(-1))

    end = len(order) if rest else len(order) // batch * batch
    order = order[:end]
    run = Pass(
        engine, data, order, reduction, metrics, look if each or see_outputs else None, totals
    )
    for first in range(0, end, batch):
        samples = min(batch, end - first)
        run.step(first, samples)
        seen(first + samples, total)
    return run.result()


def predict(
    engine: Engine, data: Data, order: SampleOrder, specs: Sequence[TensorSpec]
) -> Iterator[list[Array]]:
    """Yields the model's outputs, batch after batch, in arrays that are reused.

    Args:
        engine: an engine that computes outputs and no losses.
        data: source of the samples.
        order: numbers of the samples, in order.
        specs: spec of one sample of each output.
    """
    batch = engine.schedule.batch
    results = [np.empty((batch, *s.shape), s.dtype) for s in specs]

    def look(program: Program, at: int, count: int) -> None:
        for result, y in zip(results, program.outputs, strict=True):
            rows = result[at : at + count]
            np.copyto(rows, y.reshape(rows.shape, copy=False))

    for first in range(0, len(order), batch):
        samples = min(batch, len(order) - first)
        engine.run(samples, (), _filler(data, order, first), look)
        yield [result[:samples] for result in results]


def _label_factors(data: Data, numbers: SampleOrder, reduction: str) -> Sequence[float]:
    """Returns the factors of the losses of samples with labels that are ignored; empty for 1.

    A mean is over the labels that count, also if there are some more in one micro-batch than in
    another.
    """
    if data.weights is None or not data.weights.counted or reduction == "sum":
        return ()
    at = np.asarray(numbers)
    counts = (None if a is None else float(a[at].sum()) for a in data.weights.counted)
    # Without any, the loss is 0 with any factor.
    return [len(at) / count if count else 1.0 for count in counts]


def _scaled(scales: Sequence[float], factors: Sequence[float]) -> Sequence[float]:
    """Returns scales times factors; there may be fewer of these."""
    if not factors:
        return scales
    return [s * f for s, f in zip_longest(scales, factors, fillvalue=1.0)]


def _filler(data: Data, order: SampleOrder, first: int) -> Fill:
    """Returns a function that fills programs with the batch that begins at `first`."""

    def fill(samples: Samples, at: int, count: int) -> None:
        numbers = order[first + at : first + at + count]
        weights = data.weights
        if weights is None or weights.scales is Scales.BATCH:
            data.read(numbers, samples.inputs, samples.targets)
            return
        scales = [scale.reshape(count, -1, copy=False) for scale in samples.scales]
        factors = [scale[0, 0].item() for scale in scales]
        arrays = scales if weights.scales >= Scales.POSITIONS else ()
        data.read(numbers, samples.inputs, (*samples.targets, *arrays))
        for scale, factor in zip(arrays, factors, strict=False):
            np.multiply(scale, factor, out=scale)
        if weights.samples is not None:
            of_samples = weights.samples[np.asarray(numbers)][:, np.newaxis]
            for scale in scales:
                np.multiply(scale, of_samples, out=scale)

    return fill
