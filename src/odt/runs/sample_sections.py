"""Sections of a report about samples: confusion matrix, figures of classes, most wrong samples.

The trained model of the run is evaluated on its validation samples, or on given data files.
"""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from itertools import chain
from typing import Any

import numpy as np

from odt.core.checkpoints.progress import Progress
from odt.core.checkpoints.resume import read_resume
from odt.core.data.dataset import DataSet
from odt.core.data.protocol import SampleOrder
from odt.core.formats.flatbuffer.tflite_metadata import read_record
from odt.core.storage.reading import listed, reading
from odt.core.training.passes import Seen
from odt.core.training.sample_results import SampleResults
from odt.data.run_samples import arrange
from odt.errors import OdtError
from odt.evaluation.classification import ClassificationReport
from odt.evaluation.evaluation import Evaluation, ModelEvaluator, class_names
from odt.evaluation.sample_table import Label, SampleTable
from odt.kernels.loss_text import canonical_loss, find_loss, is_plugin
from odt.kernels.registry import LOSSES
from odt.kernels.rows.opdef import Array
from odt.models.model import file_of
from odt.runs.box_sections import box_sections
from odt.runs.page import section
from odt.runs.page import table as html_table
from odt.runs.regression_section import regression_section
from odt.runs.run import BEST, LAST, RECIPE, Run
from odt.runs.run_model import FILES, late_option, model_of, options_of, read_model, task_of_run
from odt.runs.sample_origin import SampleOrigin, origin_of
from odt.runs.sample_pictures import png, upright

MAX_RIGHT = 12  # samples predicted right that are shown
MAX_CLASSES = 30  # of a matrix that is shown whole
OPACITY = 0.7  # of the color of a cell that has all samples of its class
VALIDATION_FILES = ("validation-input", "validation-expected")
CUSTOM = "Samples of models with several losses or a custom loss are not shown."


def sample_sections(
    run: Run, new_data: tuple[Any, Any] | None, most: int, progress: Seen | None = None
) -> list[str]:
    """Returns the sections, or one that says why samples cannot be evaluated.

    Args:
        run: the run.
        new_data: inputs and targets to evaluate on, or a DataSet and None; None for the validation
            samples.
        most: number of samples that are shown.
        progress: called after each batch with the number of samples done, and of all.

    Raises:
        OdtError: if a file cannot be read or does not fit the model.
    """
    reason = unavailable(run, new_data)
    if reason:
        return [section("Samples", f'<p class="pale">{escape(reason)}</p>')]
    progress_of_run = read_resume(run.path / LAST).progress
    task = task_of_run(run, new_data)
    # Losses of a task have options that depend on the data.
    loss = str(run.recipe.get("loss") or (not task and progress_of_run.loss) or "") or None
    if loss and is_plugin(loss):
        return [section("Samples", f'<p class="pale">{CUSTOM}</p>')]
    path = model_of(run)
    model = read_model(run, path)
    if loss:
        loss = _loss(run, loss)
    weights = {} if task else options_of(run, "loss-weight")
    with ModelEvaluator(
        model, task=task, loss=loss, reduction=progress_of_run.reduction, **weights
    ) as evaluator:
        data, order, inputs = open_samples(run, new_data, evaluator, progress_of_run)
        record = read_record(file_of(model))
        names = class_names(*inputs) or (record.classes if record else ())
        evaluation = evaluator.run(
            data,
            order,
            names=names,
            per_sample=task is None,
            progress=progress,
        )
    where = "test" if new_data else "validation"
    epoch = "" if path else f", weights of {BEST}"
    about = f"<p>{len(order)} {where} samples, loss {evaluation.loss:.6g}{epoch}.</p>"
    origin = origin_of(inputs[0], data.inputs[0].spec.size)
    if evaluation.detections:
        return box_sections(data, evaluation.detections, origin, about, most)
    targets = origin.targets or (record.targets if record else ())
    return _sections(
        evaluation,
        np.asarray(order),
        names=names,
        targets=targets,
        origin=origin,
        about=about,
        most=most,
    )


def _sections(
    evaluation: Evaluation,
    order: Array,
    *,
    names: Sequence[str],
    targets: Sequence[str],
    origin: SampleOrigin,
    about: str,
    most: int,
) -> list[str]:
    """Returns the sections of an evaluation.

    Args:
        evaluation: the evaluation, with results of each sample.
        order: numbers of the samples that were evaluated.
        names: names of the classes.
        targets: names of the targets, if they are values.
        origin: where the samples come from.
        about: what was evaluated, as HTML; the first section has it.
        most: number of samples that are shown.
    """
    data, results, report = evaluation.data, evaluation.results, evaluation.classes
    assert results is not None, "per_sample=True keeps them"
    sections = []
    if report:
        sections.append(section("Classes", about + classes(report)))
        about = ""
        names = report.classes
    elif results.targets is not None and results.outputs is not None and len(order):
        count = results.outputs.shape[1]
        if len(targets) != count:
            targets = ["target"] if count == 1 else [f"target {k}" for k in range(count)]
        values = results.targets[order], results.outputs[order]
        sections.append(regression_section(*values, targets, about))
        about = ""
    label = origin.files.__getitem__ if origin.files else None
    table = ValueTable(results, names, label, targets)
    worst = results.wrong[np.isin(results.wrong, order)][:most].tolist()
    has_classes = results.probability is not None
    title = "Most wrong samples" if has_classes else "Samples of largest loss"
    sections.append(section(title, about + samples_shown(data, worst, table, origin)))
    if has_classes and most and not origin.columns:
        right = order[results.true[order] == results.predicted[order]]  # type: ignore[index]
        shown = right[np.linspace(0, len(right) - 1, min(len(right), MAX_RIGHT)).astype(int)]
        title = f"Samples predicted right: {len(shown)} of {len(right)}"
        sections.append(section(title, samples_shown(data, shown.tolist(), table, origin)))
    return sections


class ValueTable(SampleTable):
    """Samples as rows of text, also if a sample has several values to predict.

    Args:
        results: results of all samples.
        names: class names by class; empty for numbers.
        label: sample → its file; None for no such column.
        targets: names of the values; empty for classes.
    """

    def __init__(
        self,
        results: SampleResults,
        names: Sequence[str],
        label: Label | None,
        targets: Sequence[str],
    ) -> None:
        super().__init__(results, names, label)
        has_values = results.true is None and results.outputs is not None
        self._targets = targets if has_values else ()

    @property
    def heads(self) -> tuple[str, ...]:
        """Heads of the columns."""
        first, *rest = super().heads
        pairs = ((f"{name}: target", f"{name}: output") for name in self._targets)
        return first, *chain.from_iterable(pairs), *rest

    def cells(self, sample: int) -> tuple[str, ...]:
        """Returns the row of a sample."""
        first, *rest = super().cells(sample)
        results = self.results
        values: list[float] = []
        if self._targets and results.targets is not None and results.outputs is not None:
            pairs = zip(results.targets[sample], results.outputs[sample], strict=True)
            values = [*chain.from_iterable(pairs)]
        return first, *(f"{value:.6g}" for value in values), *rest


def _loss(run: Run, text: str) -> str:
    """Returns the canonical text of the run's loss, which a recipe has as on the command line."""
    word, colon, options = text.partition(":")
    name = find_loss(LOSSES.onert_numbers.get(word, word))
    if name is None:
        rule = f"must be one of {listed([*LOSSES])}, but got {word}."
        raise OdtError(f"{run.path / RECIPE}: loss: {rule}")
    return canonical_loss(name + colon + options)


def unavailable(run: Run, new_data: tuple[Any, Any] | None) -> str:
    """Returns why samples cannot be evaluated; empty if they can."""
    recipe: Mapping[str, Any] = run.recipe
    if not model_of(run) and (not (run.path / BEST).exists() or late_option(run)):
        return "The run has no trained model yet."
    if "output-loss" in recipe or is_plugin(str(recipe.get("loss", ""))):
        return CUSTOM
    if not new_data and VALIDATION_FILES[0] not in recipe and not recipe.get("validation-split"):
        return "The run has no validation data. Give inputs and expected outputs of test samples."
    return ""


def open_samples(
    run: Run, new_data: tuple[Any, Any] | None, evaluator: ModelEvaluator, progress: Progress
) -> tuple[DataSet, SampleOrder, tuple[Any, Any]]:
    """Opens samples; returns them, the numbers of those to evaluate, and inputs and targets.

    Args:
        run: the run.
        new_data: inputs and targets; None for the validation samples.
        evaluator: opens them for the model.
        progress: progress of the run, with the seed of its split.

    Raises:
        OdtError: if the recipe names no data files, or these do not fit the model.
    """
    recipe = run.recipe
    has_validation_files = VALIDATION_FILES[0] in recipe
    if new_data is None:
        files = [recipe.get(key) for key in (VALIDATION_FILES if has_validation_files else FILES)]
        if not all(files):
            raise OdtError(f"{run.path}: the recipe must name the data files, but got none.")
        inputs, targets = map(str, files)
    else:
        inputs, targets = new_data
    data = evaluator.open(inputs, targets)
    if new_data or has_validation_files:
        return data, range(data.length), (inputs, targets)
    with reading(str(run.path / RECIPE), "must be the recipe of a run", OdtError):
        length = int(recipe.get("data-length", 0))
        fraction = float(recipe["validation-split"])
    parts = arrange(
        data,
        evaluator.samples.losses,
        progress.batch,
        length=length or None,
        fraction=fraction,
        stratify=progress.stratified,
        shuffle=progress.shuffle,
        seed=progress.seed,
        drop_last=progress.drop_last,
        accumulate=progress.accumulate,
    )
    return data, parts.validation, (inputs, targets)


def classes(report: ClassificationReport) -> str:
    """Returns the confusion matrix and the figures of each class as HTML."""
    matrix = report.confusion_matrix
    names = report.classes
    parts = []
    if matrix is not None:
        right, total = int(np.trace(matrix)), int(matrix.sum())
        parts.append(f"<p>{right} of {total} right: {100 * right / max(total, 1):.2f} %.</p>")
        if len(names) <= MAX_CLASSES:
            parts.append(_matrix(matrix, names))
        else:
            parts.append(f"<pre>{escape(report.confusion())}</pre>")
    if report.warning:
        parts.append(f'<p class="warning">{escape(report.warning)}</p>')
    heads = ("class", "precision", "recall", "F1", "samples")
    columns = (report.precision, report.recall, report.f1_score)
    rows = [
        (name, *(f"{c[k]:.4f}" for c in columns), str(report.support[k]))
        for k, name in enumerate(names)
    ]
    return f'{"".join(parts)}<div class="wide">{html_table(heads, rows, "classes")}</div>'


def _matrix(matrix: Array, names: Sequence[str]) -> str:
    """Returns the confusion matrix as a table: true classes in rows, predicted ones in columns."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = [f"<tr><th>true \\ predicted</th>{head}</tr>"]
    for k, name in enumerate(names):
        total = max(int(matrix[k].sum()), 1)
        cells = ""
        for n, count in enumerate(matrix[k].tolist()):
            kinds = []
            if n == k:
                kinds.append("right")
            if not count:
                kinds.append("zero")
            mark = f' class="{" ".join(kinds)}"' if kinds else ""
            cells += f'<td{mark} style="--part:{OPACITY * count / total:.3f}">{count}</td>'
        rows.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
    table = f'<table class="matrix" id="confusion">{"".join(rows)}</table>'
    return f'<div class="wide">{table}</div>'


def samples_shown(
    data: DataSet, samples: Sequence[int], table: SampleTable, origin: SampleOrigin
) -> str:
    """Returns samples as pictures, spectrograms or curves, or as rows with their columns.

    Args:
        data: the samples.
        samples: numbers of the samples to show.
        table: targets, predictions and losses of all samples.
        origin: where the samples come from.
    """
    if not samples:
        return "<p>None.</p>"
    column = data.inputs[0]
    rows = np.empty((len(samples), column.spec.size), column.spec.dtype)
    column.read(np.asarray(samples), rows)
    if origin.columns:
        table_rows = [
            (*table.cells(sample), *origin.columns.cells(origin.unscaled(row)))
            for sample, row in zip(samples, rows, strict=True)
        ]
        heads = (*table.heads, *origin.columns.heads)
        return f'<div class="wide">{html_table(heads, table_rows, "rows")}</div>'
    tiles = []
    kind = " sound" if origin.kind == "sound" else ""
    for sample, row in zip(samples, rows, strict=True):
        image = base64.b64encode(png(upright(row, column.spec.shape, origin.kind))).decode()
        words = dict(zip(table.heads, table.cells(sample), strict=True))
        lines = "".join(f"{escape(k)} <b>{escape(v)}</b><br>" for k, v in words.items())
        tiles.append(
            f'<figure class="sample{kind}"><img alt="sample {sample}" '
            f'src="data:image/png;base64,{image}"><figcaption>{lines}</figcaption></figure>'
        )
    return f'<div class="samples">{"".join(tiles)}</div>'
