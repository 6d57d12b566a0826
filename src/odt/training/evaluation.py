"""Evaluation and prediction with a trainer's weights; quantized models compute integers."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from odt.core.data.protocol import Data, SampleOrder, Scales, scales_of
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.model import Model
from odt.core.model.quantization_rules import has_quantized_activations
from odt.core.model.variables import SVDF
from odt.core.recipe.lowered_model import lower_model
from odt.core.storage.closing import Closing
from odt.core.training.inference import Evaluator, Predictor
from odt.core.training.passes import Result, Seen, SeeOutputs, unseen
from odt.data.sources import batches_of, is_batches
from odt.errors import DataError, OptionError, warn
from odt.kernels.rows.opdef import Array, TensorSpec
from odt.training.batch_totals import BatchTotals
from odt.training.integer_form import IntegerForm, digest_of
from odt.training.session import Logs, Session

VERBOSE = ("auto", 0, 1, 2)  # values of `verbose`


class SessionEvaluation(Closing):
    """Evaluates and predicts with the current weights of a session."""

    def __init__(self, session: Session) -> None:
        """Plans nothing yet.

        Args:
            session: model, options and memory.
        """
        self._session = session
        self._form: IntegerForm | None = None

    @contextmanager
    def integer_form(self) -> Iterator[IntegerForm | None]:
        """Yields what computes the integers of the exported model; None for a float model.

        It is kept until weights change, unless memory is limited. A model with SVDF layers has
        none, because their filters are not constants of the unrolled model.
        """
        if not self._computes_integers:
            yield None
            return
        weights = self._session.exported()
        digest = digest_of(weights)
        if self._form is None or self._form.digest != digest:
            self._forget_integers()
            graphs = self._integers(weights)
            self._form = IntegerForm(digest, graphs, self._evaluator, self._predictor)
        try:
            yield self._form
        finally:
            if self._session.memory_budget is not None:
                self._forget_integers()

    @property
    def _computes_integers(self) -> bool:
        model = self._session.recipe.model
        svdf = any(node.op == SVDF for node in model.graph.nodes)
        return not svdf and has_quantized_activations(model)

    def _integers(self, weights: dict[int, Any], computed: Model | None = None) -> LoweredGraphs:
        """Returns the graphs that compute the integers of the exported model.

        Args:
            weights: weights of the exported model, by tensor of the file.
            computed: the model with the outputs to compute; None for those of training.
        """
        from odt.core.recipe.inference_graphs import trained_integers

        return trained_integers(self._session.recipe.lowered.unrolled, weights, computed)

    def _whole_graphs(self) -> LoweredGraphs:
        """Returns the graphs that compute all outputs of the file; training leaves some out."""
        session = self._session
        whole = lower_model(session.recipe.model, outputs="computed")
        weights = session.exported()
        if self._computes_integers:
            return self._integers(weights, whole.unrolled)
        return whole.with_weights(weights).graphs

    def _forget_integers(self) -> None:
        if self._form is not None:
            self._form.close()
        self._form = None

    def close(self) -> None:
        """Ends the worker threads of the integer form."""
        self._forget_integers()

    def _evaluator(self, integers: LoweredGraphs, scales: Scales) -> Evaluator:
        session = self._session
        return Evaluator(
            session.recipe.graphs,
            session.recipe.info,
            micro_batch=session.micro_batch,
            workers=session.workers,
            scales=scales,
            computed=integers,
        )

    def _predictor(self, integers: LoweredGraphs) -> Predictor:
        session = self._session
        return Predictor(
            integers,
            session.recipe.info.batch_size,
            micro_batch=session.micro_batch,
            workers=session.workers,
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
        trainer = self._session.build()
        if self._session.memory_budget is not None or trainer.caches:
            return self._with_detections(partial(trainer.evaluate, data, order, rest=rest))
        return self._with_detections(partial(self._evaluated, data, order, rest=rest))

    def _with_detections(self, run: Callable[..., Result]) -> Result:
        """Returns the result of an evaluation, with the metrics of its detections if any."""
        detection = self._session.detection
        if detection is None or not detection.metrics or not detection.has_boxes:
            return run()
        detections = detection.detections()
        result = run(see_outputs=detections.see)
        return replace(result, metrics={**result.metrics, **detections.metrics()})

    def _evaluated(
        self,
        data: Data,
        order: SampleOrder,
        *,
        rest: bool = True,
        see_outputs: SeeOutputs | None = None,
    ) -> Result:
        """Returns loss and metrics on samples; quantized models compute integers.

        Args:
            data: source of the samples.
            order: numbers of the samples.
            rest: whether to include a last batch that is not full; always if it is the only one.
            see_outputs: called for each micro-batch, by several threads at once.
        """
        trainer = self._session.build()
        rest = rest or len(order) < trainer.info.batch_size
        with self.integer_form() as form:
            if form is None:
                return trainer.evaluate(data, order, rest=rest, see_outputs=see_outputs)
            return form.evaluator(scales_of(data.weights)).run(
                data,
                order,
                trainer.metrics,
                trainer.seen,
                trainer.counts,
                see_outputs=see_outputs,
                rest=rest,
            )

    def evaluate(
        self, x: Any, y: Any = None, sample_weight: Any = None, verbose: int | str = 0
    ) -> Logs:
        """Computes loss and metrics on samples; arguments are those of `Trainer.evaluate`.

        Args:
            x: inputs, or an iterable of batches.
            y: targets (N, …); None with a DataSet or an iterable.
            sample_weight: weights of the losses of samples or positions.
            verbose: whether a terminal shows a progress bar, as of `Trainer.evaluate`.
        """
        check_verbose(verbose)
        session = self._session
        trainer = session.build()
        if is_batches(x, y):
            if sample_weight is not None:
                rule = "must be left out with batches, whose items are (x, y, sample_weight)"
                raise OptionError("sample_weight", rule, "both")
            return session.logs(self.batches(x))
        data = session.open(x, y, sample_weight)
        detection = session.detection
        following: AbstractContextManager[None] = nullcontext()
        if detection is not None:
            following = detection.following(data)
        before = trainer.seen
        with following, _progress("evaluate", verbose) as seen:
            trainer.seen = seen
            try:
                run = partial(self._evaluated, data, range(data.length))
                return session.logs(self._with_detections(run))
            finally:
                trainer.seen = before

    def batches(self, batches: Iterable[Any], name: str = "x") -> Result:
        """Computes loss and metrics over an iterable of batches.

        Args:
            batches: the batches, (x, y) or (x, y, sample_weight).
            name: the argument, for messages.
        """
        session = self._session
        if session.detection is not None:
            warn(session.detection.batch_warning())
        totals = BatchTotals(session.build())
        with self.integer_form() as form:
            for batch in batches_of(batches, session.samples, session.recipe.info.batch_size):
                data = session.open_batch(*batch)
                if form is None:
                    totals.add(data, update=False)
                    continue
                evaluator = form.evaluator(scales_of(data.weights))
                result = evaluator.run(data, range(data.length), {}, totals=totals.metrics)
                totals.count(result, data, update=False)
        if not totals.samples:
            raise DataError(f"{name}: must give batches, but it gave none.")
        return totals.result

    def evaluate_batch(self, x: Any, y: Any, sample_weight: Any = None) -> Logs:
        """Returns loss and metrics of a batch without an update.

        Args:
            x: inputs (N, …), at most a batch.
            y: targets (N, …).
            sample_weight: weights of the losses of samples or positions.
        """
        session = self._session
        if session.detection is not None:
            warn(session.detection.batch_warning())
        data = session.open_batch(x, y, sample_weight)
        trainer = session.build()
        with self.integer_form() as form:
            if form is None:
                return session.logs(trainer.batch(data, data.length, update=False))
            evaluator = form.evaluator(scales_of(data.weights))
            return session.logs(evaluator.run(data, range(data.length), trainer.metrics))

    def predict(self, x: Any, verbose: int | str = 0) -> Any:
        """Computes the model's outputs with the current weights, as `Trainer.predict`.

        Args:
            x: inputs (N, …).
            verbose: whether a terminal shows a progress bar, as of `Trainer.predict`.
        """
        with _progress("predict", verbose) as seen:
            return self._predict(x, seen)

    def _predict(self, x: Any, seen: Seen) -> Any:
        """Computes the outputs, and calls a function after each batch, as evaluations do."""
        session = self._session
        data = session.open(x, targets=False)
        trainer = session.build()
        order = range(data.length)
        if session.recipe.lowered.left_out is not None:
            with self._predictor(self._whole_graphs()) as predictor:
                specs = predictor.runtime.output_specs
                return _whole(specs, data.length, predictor.run(data, order), seen)
        specs = trainer.runtime.output_specs
        with self.integer_form() as form:
            parts = (
                trainer.predict(data, order) if form is None else form.predictor.run(data, order)
            )
            return _whole(specs, data.length, parts, seen)


@contextmanager
def _progress(name: str, verbose: int | str) -> Iterator[Seen]:
    """Yields what is called after each batch: a terminal's progress bar, or nothing.

    Raises:
        OptionError: if `verbose` has no such value.
    """
    check_verbose(verbose)
    if verbose == 0 or not sys.stderr.isatty():
        yield unseen
        return
    from odt.progress import Progress  # only terminals show bars

    with closing(Progress()) as bar:
        yield partial(bar, name)


def check_verbose(verbose: int | str) -> None:
    """Raises OptionError for a value that `verbose` does not have."""
    if verbose not in VERBOSE:
        raise OptionError("verbose", "must be auto, 0, 1 or 2", str(verbose))


def _whole(
    specs: Sequence[TensorSpec], length: int, parts: Iterable[Sequence[Array]], seen: Seen
) -> Any:
    """Returns the outputs of all samples: an array, or a list of arrays for several outputs.

    Args:
        specs: spec of one sample of each output.
        length: number of samples.
        parts: arrays of all outputs for successive batches.
        seen: called after each batch with the number of samples done, and of all.
    """
    outputs = [np.empty((length, *spec.shape), spec.dtype) for spec in specs]
    first = 0
    for rows in parts:
        for whole, part in zip(outputs, rows, strict=True):
            whole[first : first + len(part)] = part
        first += len(rows[0])
        seen(first, length)
    return outputs[0] if len(outputs) == 1 else outputs
