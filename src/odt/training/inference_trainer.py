"""Evaluation and prediction with a trainer's weights: a base class of `odt.Trainer`."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

import odt
from odt.core.checkpoints.resume import changed_constants
from odt.core.data.protocol import Data, SampleOrder
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.model import Model
from odt.core.model.quantization_rules import has_quantized_activations
from odt.core.model.variables import SVDF
from odt.core.recipe.lowered_model import lower_model
from odt.core.training.passes import Result
from odt.data.sources import batches_of, is_batches
from odt.errors import DataError
from odt.kernels.rows.opdef import Array, TensorSpec
from odt.models.habits import known_arguments
from odt.training.base_trainer import Logs
from odt.training.batch_totals import BatchTotals
from odt.training.batch_trainer import BatchTrainer
from odt.training.integer_form import IntegerForm, digest_of

if TYPE_CHECKING:
    from odt.core.training.inference import Evaluator, Predictor


class InferenceTrainer(BatchTrainer):
    """Evaluates and predicts with the current weights; quantized models in integers."""

    _form: IntegerForm | None = None

    def _exported(self) -> dict[int, Any]:
        """Weights by tensor of the file, with adapters merged into them, and ranges that moved."""
        trainer, adapted = self.build(), self.recipe.lowered.adapted
        changed = changed_constants(self.recipe.graph, self._graph)
        weights = {**changed, **trainer.weights()}
        weights = weights if adapted is None else adapted.merged(weights)
        return {**weights, **trainer.parameters.ranges.current()}

    @contextmanager
    def integer_form(self) -> Iterator[IntegerForm | None]:
        """What computes the integers of the exported model; None for a float model.

        It is kept until weights change, unless memory is limited. None for SVDF layers too, whose
        filters are not constants of the unrolled model.
        """
        if not self._computes_integers:
            yield None
            return
        weights = self._exported()
        digest = digest_of(weights)
        if self._form is None or self._form.digest != digest:
            self._forget_integers()
            graphs = self._integers(weights)
            self._form = IntegerForm(digest, graphs, self._evaluator, self._predictor)
        try:
            yield self._form
        finally:
            if self.memory_budget is not None:
                self._forget_integers()

    @property
    def _computes_integers(self) -> bool:
        model = self.recipe.model
        svdf = any(node.op == SVDF for node in model.graph.nodes)
        return not svdf and has_quantized_activations(model)

    def _integers(self, weights: dict[int, Any], computed: Model | None = None) -> LoweredGraphs:
        """The graphs that compute the integers of the exported model.

        Args:
            weights: those of the export.
            computed: the model with the outputs to compute; None for those of training.
        """
        from odt.core.recipe.inference_graphs import trained_integers

        return trained_integers(self.recipe.lowered.unrolled, weights, computed)

    def _whole_graphs(self) -> LoweredGraphs:
        """The graphs that compute the outputs of the file, of which training leaves some out."""
        whole, weights = lower_model(self.recipe.model, outputs="computed"), self._exported()
        if self._computes_integers:
            return self._integers(weights, whole.unrolled)
        return whole.with_weights(weights).graphs

    def _forget_integers(self) -> None:
        if self._form is not None:
            self._form.close()
        self._form = None

    def close(self) -> None:
        """Ends the worker threads; weights stay readable."""
        self._forget_integers()
        super().close()

    def _evaluator(self, integers: LoweredGraphs, weighted: bool) -> "Evaluator":
        from odt.core.training.inference import Evaluator

        return Evaluator(
            self.recipe.graphs,
            self.recipe.info,
            micro_batch=self._micro_batch,
            workers=self._workers,
            weighted=weighted,
            computed=integers,
        )

    def _predictor(self, integers: LoweredGraphs) -> "Predictor":
        from odt.core.training.inference import Predictor

        schedule = {"micro_batch": self._micro_batch, "workers": self._workers}
        return Predictor(integers, self.recipe.info.batch_size, **schedule)

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
        if self.memory_budget is not None or trainer.caches:
            return trainer.evaluate(data, order, rest=rest)
        return self._evaluated(data, order, rest=rest)

    def _evaluated(self, data: Data, order: SampleOrder, *, rest: bool = True) -> Result:
        trainer = self.build()
        rest = rest or len(order) < trainer.info.batch_size
        with self.integer_form() as form:
            if form is None:
                return trainer.evaluate(data, order, rest=rest)
            return form.evaluator(weighted=data.weights is not None).run(
                data, order, trainer.metrics, trainer.seen, trainer.counts, rest=rest
            )

    @known_arguments(lambda: odt.Trainer.__init__)
    def evaluate(self, x: Any, y: Any = None, sample_weight: Any = None) -> Logs:
        """Computes loss and metrics on samples.

        Args:
            x: inputs, as in `fit`.
            y: targets (N, …), as in `fit`.
            sample_weight: weights of the samples' losses, as in `fit`; metrics are not weighted.

        Returns:
            Loss and metrics by name.
        """
        self.build()
        if is_batches(x, y):
            return self._evaluate_batches(x)
        data = self.open(x, y, sample_weight)
        return self.logs(self._evaluated(data, range(data.length)))

    def test_on_batch(self, x: Any, y: Any, sample_weight: Any = None) -> Logs:
        """Returns loss and metrics of a batch without an update.

        Args:
            x: inputs (N, …), at most a batch.
            y: targets (N, …).
            sample_weight: weights of the samples' losses (N,).
        """
        data, trainer = self.open_batch(x, y, sample_weight), self.build()
        with self.integer_form() as form:
            if form is None:
                return self.logs(trainer.batch(data, data.length, update=False))
            evaluator = form.evaluator(weighted=data.weights is not None)
            return self.logs(evaluator.run(data, range(data.length), trainer.metrics))

    @known_arguments(lambda: odt.Trainer.__init__)
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
        if self.recipe.lowered.left_out is not None:
            with self._predictor(self._whole_graphs()) as predictor:
                specs = predictor.runtime.output_specs
                return _whole(specs, data.length, predictor.run(data, order))
        specs = trainer.runtime.output_specs
        with self.integer_form() as form:
            parts = (
                trainer.predict(data, order) if form is None else form.predictor.run(data, order)
            )
            return _whole(specs, data.length, parts)

    def _evaluate_batches(self, batches: Iterable[Any]) -> Logs:
        totals = BatchTotals(self.build())
        with self.integer_form() as form:
            for batch in batches_of(batches, self.samples, self.recipe.info.batch_size):
                data = self.open_batch(*batch)
                if form is None:
                    totals.add(data, update=False)
                    continue
                evaluator = form.evaluator(weighted=data.weights is not None)
                found = evaluator.run(data, range(data.length), {}, totals=totals.metrics)
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
