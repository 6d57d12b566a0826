"""Evaluation of model files: loss, metrics, classes, and the loss of each sample."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from odt.arguments import checked_arguments
from odt.charts.html import table
from odt.core.data import dataset
from odt.core.data.protocol import SampleOrder, Scales
from odt.core.data.sidecar import read_sidecar
from odt.core.formats.flatbuffer.tflite_metadata import read_record
from odt.core.options.training_options import RECIPE_OPTIONS
from odt.core.recipe.inference_graphs import inference_graphs
from odt.core.recipe.sequences import need_sequences
from odt.core.recipe.training_outputs import describe_left_out
from odt.core.storage.closing import Closing
from odt.core.training.inference import Evaluator
from odt.core.training.metrics import fitting_metrics, user_names
from odt.core.training.passes import NO_TOTALS, Seen, unseen
from odt.core.training.sample_results import SampleResults
from odt.data.new_data import NewData, OpenedData, Show, open_labeled
from odt.data.sources import parts_of, recorded, samples_of, with_weights
from odt.dataclass import dataclass
from odt.errors import DataError, OptionError
from odt.evaluation.classification import (
    ClassificationReport,
    check_classes,
    form_of,
    make_report,
    numbers_form,
)
from odt.habits import check_arguments
from odt.kernels.families.class_counts import class_counter
from odt.models.model import Model, Path, file_of
from odt.text import figure
from odt.training.option_forms import metric_names
from odt.training.recipes import recipe_of, request_of

if TYPE_CHECKING:
    from odt.training.detection import Detection, Detections


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Loss and metrics of a model over samples.

    Attributes:
        loss: mean loss of the samples; with the reduction "sum", the mean over the batches of the
            sums of their losses. Weights of samples are applied.
        metrics: metrics by the names that were given.
        classes: figures of each class; None if the targets are not classes.
        results: loss, target and prediction of each sample; None unless `per_sample` was given.
        label: function that returns the file or the place of a sample, for new data; None for data
            files and arrays.
        data: the samples, as odt reads them.
        detections: detections of each sample, if the model was evaluated on boxes; else None.
    """

    loss: float
    metrics: Mapping[str, float]
    classes: ClassificationReport | None
    results: SampleResults | None
    label: Callable[[int], str] | None = field(repr=False)
    data: dataset.DataSet = field(repr=False)
    detections: "Detections | None" = field(default=None, repr=False)

    def __repr__(self) -> str:
        values = {"loss": self.loss, **self.metrics}
        shown = ", ".join(f"{name}={figure(value)}" for name, value in values.items())
        return f"Evaluation({shown}, {self.data.length} samples)"

    def _repr_html_(self) -> str:
        values = {"loss": self.loss, **self.metrics}
        rows = [("", "value"), *((name, figure(value)) for name, value in values.items())]
        classes = self.classes._repr_html_() if self.classes else ""
        return f"<div>{table(rows, right=(1,))}{classes}</div>"


class ModelEvaluator(Closing):
    """Evaluates a model without the memory that its training would take.

    Attributes:
        samples: specs of a sample, with the losses.
        left_out: which operators are left out, as text; empty for none.

    Args:
        model: the model; quantized models compute integers.
        metrics: names of metrics.
        task: "boxes" to evaluate a detector on boxes.
        scales: what weights of data are planned for; other weights are planned when they come.
        micro_batch: samples that a worker computes at once; None to choose.
        workers: number of worker threads; None to choose.
        options: `loss`, `output_losses`, `loss_weights`, `reduction` and `batch_size` of Trainer.

    Raises:
        OptionError: if the loss or a metric does not fit the model.
        UnsupportedError: if odt cannot compute an operator.
    """

    def __init__(
        self,
        model: Model,
        metrics: str | Sequence[str] = (),
        *,
        task: str | None = None,
        scales: Scales = Scales.BATCH,
        micro_batch: int | None = None,
        workers: int | None = None,
        **options: Any,
    ) -> None:
        self._file = file_of(model)
        names = metric_names(metrics)
        self._detection: Detection | None = None
        if task is not None:
            from odt.training.detection import Detection as BoxDetection

            self._detection = BoxDetection(model, names)
            if not names:
                self._detection.metrics = self._detection.usual_metrics
            names = tuple(name for name in names if name not in self._detection.metrics)
            options |= self._detection.default_losses(options)
        recipe, self.samples = recipe_of(model, request_of(model, **options), trains=False)
        self.left_out = describe_left_out(recipe.lowered, "evaluation")
        self._evaluator = Evaluator(
            recipe.graphs,
            recipe.info,
            micro_batch=micro_batch,
            workers=workers,
            scales=scales,
            computed=inference_graphs(recipe.lowered),
        )
        loss, output = self.samples.losses[0]
        logits = self.samples.logits[0]
        try:
            self._metrics = fitting_metrics(names, loss, output, logits=logits)
            self._names = user_names(names, loss, output, logits=logits)
        except BaseException:
            self.close()
            raise

    def run(
        self,
        data: dataset.DataSet,
        order: SampleOrder | None = None,
        *,
        names: Sequence[str] = (),
        per_class: bool = False,
        per_sample: bool = False,
        progress: Seen | None = None,
        label: Callable[[int], str] | None = None,
    ) -> Evaluation:
        """Evaluates the model on samples.

        Args:
            data: the samples, opened with the specs in `samples`.
            order: numbers of the samples to evaluate; None for all.
            names: names of the classes; numbers if left out.
            per_class: whether targets must be classes.
            per_sample: whether to keep the loss of each sample, which then run one by one.
            progress: called after each batch with the number of samples done, and of all.
            label: sample → its file or place.

        Raises:
            DataError: if a sample is invalid, or targets are not classes and `per_class` is given.
        """
        detections = self._detection.detections() if self._detection else None
        form = None if detections else form_of(data, self.samples)
        if per_class and detections is None:
            form = check_classes(form, data)
        counts = class_counter(form) if form else None
        results = None
        if per_sample:
            _, output = self.samples.losses[0]
            results = SampleResults(data.length, form or numbers_form(self.samples), output)
        result = self._evaluator.run(
            data,
            range(data.length) if order is None else order,
            self._metrics,
            progress or unseen,
            totals={"classes": counts} if counts else NO_TOTALS,
            each=results.add if results else None,
            see_outputs=detections.see if detections else None,
        )
        metrics = {self._names[name]: value for name, value in result.metrics.items()}
        return Evaluation(
            loss=result.loss,
            metrics={**metrics, **(detections.metrics() if detections else {})},
            classes=make_report(counts, names) if counts else None,
            results=results,
            label=label,
            data=data,
            detections=detections,
        )

    def open(self, x: Any, y: Any) -> dataset.DataSet:
        """Opens samples with their targets; arguments as of `odt.evaluate`."""
        specs = self._evaluator.runtime
        if self._detection is None:
            return samples_of(x, y, specs)
        data = self._detection.open(x, y, specs, targets=True)
        if data.targets:
            self._detection.follow(data)
        return data

    def evaluate(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        check_data: bool = False,
        show: Show | None = None,
        **options: Any,
    ) -> Evaluation:
        """Opens samples and evaluates the model on them; arguments as of `odt.evaluate`."""
        specs = self._evaluator.runtime
        opened: OpenedData | None = None
        if isinstance(x, NewData):
            if self._detection is not None:
                raise DataError(
                    f"{x.source}: must be data files with boxes to evaluate a detector on boxes, "
                    "but is new data. Make them with odt gen-datafile."
                )
            record = x.record_for(self._file)
            recorded_names = record.classes
            opened = open_labeled(x.source, record, specs, show)
            data = opened.samples
        else:
            stored = read_record(self._file)
            recorded_names = stored.classes if stored else ()
            data = self.open(x, y)
        if not data.targets:
            raise DataError("y: must be given to evaluate, but got None.")
        if sample_weight is not None:
            data = with_weights(data, sample_weight, specs)
        if check_data:
            data.check_all()
        names = class_names(x, y) or recorded_names
        label = None if opened is None else opened.label
        evaluation = self.run(data, names=names, label=label, **options)
        if opened is not None:
            opened.show_remarks(show)
        return evaluation

    def close(self) -> None:
        """Ends the worker threads."""
        self._evaluator.close()


def task_of(x: Any, y: Any) -> str | None:
    """Returns the task of targets by the JSON file beside a data file: "boxes", or None."""
    _, targets, _ = parts_of(x, y)
    record = recorded(targets)
    return "boxes" if record is not None and record.boxes else None


def class_names(x: Any, y: Any) -> Sequence[str]:
    """Returns the names of the classes in the JSON file beside a data file; empty for none."""
    inputs, targets, _ = parts_of(x, y)
    for path in (targets, inputs):
        if isinstance(path, str | os.PathLike):
            sidecar = read_sidecar(os.fspath(path))
            if sidecar and sidecar.classes:
                return sidecar.classes
    return ()


@checked_arguments
def evaluate(
    model: Model | Path,
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    metrics: str | Sequence[str] = (),
    task: str | None = None,
    per_class: bool = False,
    per_sample: bool = False,
    check_data: bool = False,
    micro_batch: int | None = None,
    workers: int | None = None,
    progress: Seen | None = None,
    show: Show | None = None,
    **options: Any,
) -> Evaluation:
    """Evaluates a model file, without the memory that its training would take.

    Args:
        model: a model or the path of its file; quantized models compute integers.
        x: inputs (N, …), as in `Trainer.fit`, or NewData.
        y: targets (N, …), as in `Trainer.fit`; left out with a DataSet or NewData.
        sample_weight: weights of the losses of samples or positions, as in `Trainer.fit`.
        metrics: one or several names, as for Trainer.
        task: "boxes" to evaluate a detector on boxes, as for Trainer. Default: "boxes" for targets
            of boxes in a data file.
        per_class: whether to refuse targets that are not classes.
        per_sample: whether to keep the loss of each sample. Samples are then computed one by one.
        check_data: whether to check all values before the first batch.
        micro_batch: samples that a worker computes at once; chosen by odt if left out.
        workers: number of worker threads; chosen by odt if left out.
        progress: called after each batch with the number of samples computed so far and the number
            of all samples.
        show: called with each note about the model and the samples, such as `print`.
        options: `loss`, `output_losses`, `loss_weights`, `reduction` and `batch_size` of Trainer.

    Raises:
        DataError: if the samples do not fit the model, or the targets are not classes and
            `per_class` is given.
        ModelError: if the model cannot be read.
        OdtError: if there is no preprocessing record for NewData.
        OptionError: if the loss or a metric does not fit the model, or `y` is given with a DataSet
            or NewData.
        UnsupportedError: if odt cannot compute an operator.
    """
    check_arguments(options, evaluate, further=RECIPE_OPTIONS)
    source = model if isinstance(model, Model) else Model(file_of(model))
    need_sequences(file_of(source))
    if isinstance(x, NewData):
        if y is not None:
            raise OptionError("y", "must be left out with NewData", "both")
        x.record_for(file_of(source))  # a missing record is an error before anything is planned
    with ModelEvaluator(
        source,
        metrics,
        task=task or task_of(x, y),
        scales=Scales.BATCH if sample_weight is None else Scales.SAMPLES,
        micro_batch=micro_batch,
        workers=workers,
        **options,
    ) as evaluator:
        if show is not None and evaluator.left_out:
            show(evaluator.left_out)
        return evaluator.evaluate(
            x,
            y,
            sample_weight,
            check_data=check_data,
            show=show,
            per_class=per_class,
            per_sample=per_sample,
            progress=progress,
        )
