"""Evaluation and prediction: forward passes without training."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from odt.core.data.protocol import Data, SampleOrder, Scales, scales_of
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.computation import Computation, Plans
from odt.core.planning.output_loss import Loss
from odt.core.planning.schedule import choose_schedule
from odt.core.recipe.output_losses import moved_outputs, output_losses
from odt.core.runtime.parameters import Parameters
from odt.core.runtime.runtime import Runtime
from odt.core.storage.closing import Closing
from odt.core.training.metrics import Metrics
from odt.core.training.passes import (
    NO_TOTALS,
    Each,
    Result,
    Seen,
    SeeOutputs,
    Totals,
    evaluate,
    new_totals,
    predict,
    read_rows,
    unseen,
)
from odt.kernels.rows.opdef import Array


class Evaluator(Closing):
    """Evaluates a model on data.

    Attributes:
        runtime: schedule, and specs of a sample.
    """

    def __init__(
        self,
        graph: Graph | LoweredGraphs,
        info: TrainingInfo,
        *,
        micro_batch: int | None = None,
        workers: int | None = None,
        scales: Scales = Scales.BATCH,
        computed: LoweredGraphs | None = None,
    ) -> None:
        """Plans the evaluation.

        Args:
            graph: the graph that trains, whose outputs have the losses.
            info: losses and batch size.
            micro_batch, workers: None to choose.
            scales: what probably has weights; for finer ones, `run` plans again.
            computed: graphs that compute the same tensors in integers; None for `graph`.
        """
        plans = Plans(graph)
        losses = output_losses(plans.graphs, info)
        if computed is not None and computed is not plans.graphs:
            losses = tuple(_on_integers(plans.graphs, loss) for loss in losses)
            plans = Plans(computed)
        self._reduction = info.reduction
        self._scales = scales
        computation = Computation(losses, outputs=True, rows=True).scaled(scales)
        self.runtime = _runtime(plans, computation, info.batch_size, micro_batch, workers)

    def run(
        self,
        data: Data,
        order: SampleOrder,
        metrics: Metrics,
        seen: Seen = unseen,
        totals: Totals = NO_TOTALS,
        each: Each | None = None,
        see_outputs: SeeOutputs | None = None,
        *,
        rest: bool = True,
    ) -> Result:
        """Loss and metrics over the samples of the order; arguments as of `evaluate`."""
        engine = self.runtime.engine_of(0)  # the only computation
        scales = scales_of(data.weights)
        rows = not each and not see_outputs and read_rows({**new_totals(metrics), **totals})
        needs_outputs = bool(engine.plan.rows) and not rows
        if each or scales > self._scales or needs_outputs:
            computation = engine.computation.scaled(max(scales, self._scales))
            computation = replace(computation, rows=computation.rows and not needs_outputs)
            engine = self.runtime.engine(computation, micro_batch=1 if each else None)
        return evaluate(
            engine,
            data,
            order,
            self._reduction,
            metrics,
            rest=rest,
            seen=seen,
            totals=totals,
            each=each,
            see_outputs=see_outputs,
        )

    def close(self) -> None:
        """Ends the worker threads."""
        self.runtime.close()


class Predictor(Closing):
    """Computes a model's outputs.

    Attributes:
        runtime: schedule, and specs of a sample.
    """

    def __init__(
        self,
        graph: Graph | LoweredGraphs,
        batch: int,
        *,
        micro_batch: int | None = None,
        workers: int | None = None,
    ) -> None:
        """Plans the prediction.

        Args:
            graph: graph as in the file.
            batch: samples of a batch.
            micro_batch, workers: None to choose.
        """
        self.runtime = _runtime(
            Plans(graph), Computation(outputs=True), batch, micro_batch, workers
        )

    def run(self, data: Data, order: SampleOrder) -> Iterator[Sequence[Array]]:
        """Yields the outputs, batch after batch, in arrays that are reused."""
        engine = self.runtime.engine_of(0)
        return predict(engine, data, order, self.runtime.output_specs)

    def close(self) -> None:
        """Ends the worker threads."""
        self.runtime.close()


def _on_integers(graphs: LoweredGraphs, loss: Loss) -> Loss:
    """Returns a loss that reads a tensor of the integer graph.

    It reads logits after their rounding, and probabilities instead of logits if lowering moves the
    activation that the loss includes.
    """
    graph, output = graphs.graph, graphs.graph.outputs[loss.output]
    if output in moved_outputs(graphs) and loss.tensor != output:
        # SOFTMAX itself applies its beta.
        options = {n: v for n, v in loss.options.items() if n != "beta"} | {"from_logits": False}
        return replace(loss, tensor=output, options=options)
    rounded = {n.inputs[0]: n.outputs[0] for n in graph.nodes if n.op == "FAKE_QUANT"}
    return replace(loss, tensor=rounded.get(loss.tensor, loss.tensor))


def _runtime(
    plans: Plans, computation: Computation, batch: int, micro_batch: int | None, workers: int | None
) -> Runtime:
    """Makes the runtime of one computation without trained weights."""
    schedule = choose_schedule(
        plans.graphs, batch, lambda n: plans.at(computation, n), micro_batch, workers
    )
    return Runtime(plans, [computation], Parameters(plans.graph), schedule)
