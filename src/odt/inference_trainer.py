"""Evaluation and prediction with a trainer's weights: a base class of `odt.Trainer`."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from odt.base_trainer import Logs
from odt.batch_totals import BatchTotals
from odt.batch_trainer import BatchTrainer
from odt.core.checkpoints.resume import changed_constants
from odt.core.data.protocol import Data, SampleOrder
from odt.core.lowering.lower import LoweredGraphs
from odt.core.lowering.lowered_model import lower_model
from odt.core.model.quantization_rules import has_quantized_activations
from odt.core.model.reader import Model
from odt.core.model.variables import SVDF
from odt.core.training.passes import Result
from odt.data import batches_of, is_batches
from odt.errors import DataError
from odt.kernels.opdef import Array, TensorSpec

if TYPE_CHECKING:
    from odt.core.training.inference import Evaluator


class InferenceTrainer(BatchTrainer):
    """Evaluates and predicts with the current weights; quantized models in integers."""

    def _exported(self) -> dict[int, Any]:
        """Weights by tensor of the file, with adapters merged into them, and ranges that moved."""
        trainer, adapted = self.build(), self.recipe.lowered.adapted
        changed = changed_constants(self.recipe.graph, self._graph)
        weights = {**changed, **trainer.weights()}
        weights = weights if adapted is None else adapted.merged(weights)
        return {**weights, **trainer.parameters.ranges.current()}

    def _integers(self, computed: Model | None = None) -> LoweredGraphs | None:
        """The graphs that compute what the exported model will compute; None for a float model.

        None for SVDF layers too, whose filters are not constants of the unrolled model.

        Args:
            computed: the model with the outputs to compute; None for those of training.
        """
        model = self.recipe.model
        svdf = any(node.op == SVDF for node in model.graph.nodes)
        if svdf or not has_quantized_activations(model):
            return None
        from odt.core.lowering.integer_graph import trained_integers

        return trained_integers(self.recipe.lowered.unrolled, self._exported(), computed)

    def _computed(self) -> LoweredGraphs | None:
        """The graphs that compute the outputs of the file; None if those of training do."""
        if self.recipe.lowered.left_out is None:
            return self._integers()
        whole = lower_model(self.recipe.model, outputs="computed")
        integers = self._integers(whole.unrolled)
        if integers is not None:
            return integers
        tensors = list(whole.graph.tensors)
        for i, values in self._exported().items():
            tensors[i] = replace(tensors[i], data=values)
        return LoweredGraphs(replace(whole.graph, tensors=tuple(tensors)))

    def _evaluator(self, integers: LoweredGraphs, *, weighted: bool) -> "Evaluator":
        from odt.core.training.inference import Evaluator

        return Evaluator(
            self.recipe.graphs,
            self.recipe.info,
            micro_batch=self._micro_batch,
            workers=self._workers,
            weighted=weighted,
            computed=integers,
        )

    def validate(self, data: Data, order: SampleOrder, *, rest: bool) -> Result:
        """Returns loss and metrics on validation samples.

        Quantized models compute integers, as in `evaluate`, unless a second plan would exceed the
        memory budget, or the frozen part is cached.

        Args:
            data: source of the samples.
            order: numbers of the samples.
            rest: whether to include a last batch that is not full, as in the engine's `evaluate`.
        """
        trainer = self.build()
        limited = self.memory_budget is not None or trainer.caches
        integers = None if limited else self._integers()
        if integers is None:
            return trainer.evaluate(data, order, rest=rest)
        rest = rest or len(order) < trainer.info.batch_size
        return self._evaluated(integers, data, order, rest=rest)

    def _evaluated(
        self, integers: LoweredGraphs, data: Data, order: SampleOrder, *, rest: bool
    ) -> Result:
        trainer = self.build()
        with self._evaluator(integers, weighted=data.weights is not None) as evaluator:
            return evaluator.run(
                data, order, trainer.metrics, trainer.seen, trainer.counts, rest=rest
            )

    def evaluate(self, x: Any, y: Any = None, sample_weight: Any = None) -> Logs:
        """Computes loss and metrics on samples.

        Args:
            x: inputs, as in `fit`.
            y: targets (N, …), as in `fit`.
            sample_weight: weights of the samples' losses, as in `fit`; metrics are not weighted.

        Returns:
            Loss and metrics by name.
        """
        trainer = self.build()
        if is_batches(x, y):
            return self._evaluate_batches(x)
        data = self.open(x, y, sample_weight)
        order, integers = range(data.length), self._integers()
        if integers is None:
            return self.logs(trainer.evaluate(data, order, rest=True))
        return self.logs(self._evaluated(integers, data, order, rest=True))

    def test_on_batch(self, x: Any, y: Any, sample_weight: Any = None) -> Logs:
        """Returns loss and metrics of a batch without an update.

        Args:
            x: inputs (N, …), at most a batch.
            y: targets (N, …).
            sample_weight: weights of the samples' losses (N,).
        """
        data = self.open_batch(x, y, sample_weight)
        return self.logs(self.build().batch(data, data.length, update=False))

    def predict(self, x: Any) -> Any:
        """Computes the model's outputs with the current weights.

        For outputs that odt does not compute, such as those of a detector's post-processing, it
        returns the outputs of training instead.

        Args:
            x: inputs (N, …), as in `fit`.

        Returns:
            An array (N, …); a list of arrays if the model has several outputs.
        """
        data = self.open(x, targets=False)
        trainer, order = self.build(), range(data.length)
        computed = self._computed()
        if computed is None:
            specs = trainer.runtime.output_specs
            return _whole(specs, data.length, trainer.predict(data, order))
        from odt.core.training.inference import Predictor

        schedule = {"micro_batch": self._micro_batch, "workers": self._workers}
        with Predictor(computed, self.recipe.info.batch_size, **schedule) as predictor:
            specs = predictor.runtime.output_specs
            return _whole(specs, data.length, predictor.run(data, order))

    def _evaluate_batches(self, batches: Iterable[Any]) -> Logs:
        totals, integers = BatchTotals(self.build()), self._integers()
        evaluators: dict[bool, Evaluator] = {}
        with ExitStack() as stack:
            for batch in batches_of(batches, self.samples, self.recipe.info.batch_size):
                data = self.open_batch(*batch)
                if integers is None:
                    totals.add(data, update=False)
                    continue
                weighted = data.weights is not None
                if weighted not in evaluators:
                    made = self._evaluator(integers, weighted=weighted)
                    evaluators[weighted] = stack.enter_context(made)
                order = range(data.length)
                found = evaluators[weighted].run(data, order, {}, totals=totals.metrics)
                totals.count(found, data.length)
        if not totals.samples:
            raise DataError("x: must give batches, but it gave none.")
        return self.logs(totals.result)


def _whole(specs: Sequence[TensorSpec], length: int, parts: Iterable[Sequence[Array]]) -> Any:
    """The outputs of all samples, from those of batches: an array, or a list of several."""
    outputs = [np.empty((length, *spec.shape), spec.dtype) for spec in specs]
    first = 0
    for rows in parts:
        for whole, part in zip(outputs, rows, strict=True):
            whole[first : first + len(part)] = part
        first += len(rows[0])
    return outputs[0] if len(outputs) == 1 else outputs
