"""Figures of each class: precision, recall, F1 and the confusion matrix."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from odt.arguments import checked_arguments
from odt.charts.html import paragraph
from odt.core.data.dataset import DataSet
from odt.core.data.protocol import scales_of
from odt.core.planning.computation import Computation
from odt.core.recipe.option_values import list_of_names
from odt.core.recipe.sample_specs import SampleSpecs
from odt.core.training.metrics import class_form
from odt.core.training.passes import NO_TOTALS, Each, Totals, evaluate, read_rows
from odt.core.training.sample_results import SampleResults
from odt.dataclass import dataclass
from odt.errors import DataError, OptionError, one_line
from odt.evaluation import class_html
from odt.evaluation.class_html import CORNER, MAX_NAME
from odt.habits import known_arguments
from odt.kernels.families.class_counts import (
    MAX_CLASSES,
    ClassCounts,
    Confusion,
    class_counter,
)
from odt.kernels.rows.metricdef import NUMBERS, OutputForm
from odt.text import Text, table
from odt.training.fit_warnings import never_predicted
from odt.training.trainer import Trainer

Array: TypeAlias = np.ndarray[Any, Any]

MAX_PRINTED = 20  # classes of a confusion matrix that is printed whole
MAX_WIDE = 100  # characters of a line with class names as heads of columns
COUNT, GAP = 5, 2  # characters of a number of samples, and between columns, for that width
PAIRS = 20  # pairs of classes that are printed of a large confusion matrix


@dataclass(frozen=True, slots=True)
class ClassificationReport:
    """Figures of each class over samples, as in scikit-learn; printed as a table.

    Attributes:
        classes: names of the C classes; their numbers if no names are known.
        precision: fraction of the samples predicted as a class that have this class (C,); 0 for a
            class that is never predicted.
        recall: fraction of the samples of a class that are predicted as this class (C,); 0 for a
            class without samples.
        f1_score: harmonic mean of precision and recall (C,); 0 if both are 0.
        support: number of samples of each class (C,).
        predicted: number of samples predicted as each class (C,).
        confusion_matrix: number of samples by true class (rows) and predicted class (columns)
            (C, C); None for several labels a sample, and for more than 4,096 classes.
    """

    classes: tuple[str, ...]
    precision: Array
    recall: Array
    f1_score: Array
    support: Array
    predicted: Array
    confusion_matrix: Array | None

    @property
    def warning(self) -> str:
        """A warning of classes that samples have but that are never predicted; empty for none."""
        return never_predicted(self.support, self.predicted, self.classes) or ""

    def __repr__(self) -> str:
        count = int(self.support.sum())
        matrix = self.confusion_matrix
        right = "" if matrix is None else f", {np.trace(matrix) / max(count, 1):.4f} right"
        return f"ClassificationReport({len(self.classes)} classes, {count} samples{right})"

    def _repr_html_(self) -> str:
        parts = []
        if self.confusion_matrix is not None:
            matrix = class_html.confusion(self.confusion_matrix, self.classes, self.confusion())
            parts.append(matrix)
        if self.warning:
            parts.append(paragraph(self.warning))
        columns = {"precision": self.precision, "recall": self.recall, "F1": self.f1_score}
        parts.append(class_html.figures(self.classes, columns, self.support))
        return f"<div>{''.join(parts)}</div>"

    def __str__(self) -> str:
        """Returns the table of all classes, with the macro average."""
        columns = (self.precision, self.recall, self.f1_score)
        rows: list[tuple[str, ...]] = [("class", "precision", "recall", "f1-score", "support")]
        rows += [
            (one_line(name, MAX_NAME), *(f"{c[k]:.4f}" for c in columns), str(self.support[k]))
            for k, name in enumerate(self.classes)
        ]
        occurs = (self.support > 0) | (self.predicted > 0)
        means = (f"{c[occurs].mean() if occurs.any() else 0:.4f}" for c in columns)
        rows.append(("macro average", *means, str(self.support.sum())))
        return "\n".join(table(rows, right=range(1, 5)))

    def confusion(self) -> str:
        """Returns the confusion matrix as a table; for more than 20 classes, the confused pairs.

        Raises:
            DataError: if there is no confusion matrix.
        """
        matrix = self.confusion_matrix
        if matrix is None:
            count = len(self.classes)
            got = f"{count:,} classes" if count > MAX_CLASSES else "several labels a sample"
            raise DataError(
                "confusion_matrix: samples must have one class each, of at most "
                f"{MAX_CLASSES:,}, but got {got}."
            )
        names = [one_line(name, MAX_NAME) for name in self.classes]
        if len(names) > MAX_PRINTED:
            return Text("\n".join(_pairs(matrix, names)))
        heads = names
        numbers = [str(k) for k in range(len(names))]
        columns = [max(len(name), COUNT) for name in names]
        width = max(map(len, names)) + sum(columns) + GAP * len(columns)
        if names != numbers and width > MAX_WIDE:
            names = [f"{k} {name}" for k, name in enumerate(names)]
            heads = numbers
        rows = [(CORNER, *heads)]
        rows += [(name, *map(str, row)) for name, row in zip(names, matrix.tolist(), strict=True)]
        return Text("\n".join(table(rows, right=range(1, len(rows)))))


def _pairs(matrix: Array, names: Sequence[str]) -> list[str]:
    """Returns the pairs of classes that are confused most often, as lines of a table."""
    wrong = matrix.copy()
    np.fill_diagonal(wrong, 0)
    positions = np.argsort(-wrong, axis=None, kind="stable")[:PAIRS]  # in the flat matrix
    rows = [("true class", "predicted class", "samples", "of the true class")]
    for position in positions:
        true, predicted = divmod(int(position), len(names))
        count = int(wrong[true, predicted])
        if count:
            fraction = f"{100 * count / matrix[true].sum():.1f} %"
            rows.append((names[true], names[predicted], str(count), fraction))
    return table(rows, right=(2, 3))


def form_of(data: DataSet, samples: SampleSpecs) -> OutputForm | None:
    """Returns the classes of the first output that has a loss; None if its targets are none."""
    return class_form(data.targets[0], *samples.losses[0], logits=samples.logits[0])


def check_classes(form: OutputForm | None, data: DataSet) -> OutputForm:
    """Returns the form of classes.

    Raises:
        DataError: if the targets are not classes.
    """
    if form is None:
        raise DataError(
            f"{data.targets[0].name}: targets must be classes, which are one-hot rows, labels or "
            "single values 0 or 1, but got other values."
        )
    return form


def numbers_form(samples: SampleSpecs) -> OutputForm:
    """Returns the form of the first output that has a loss, as values along its last axis."""
    _, output = samples.losses[0]
    return OutputForm(NUMBERS, output.shape[-1] if output.shape else 1)


def make_report(counts: ClassCounts, classes: Sequence[str]) -> ClassificationReport:
    """Makes the report of counted classes.

    Args:
        counts: counts of all samples.
        classes: class names; if their number is another, numbers replace them.
    """
    size = len(counts.actual)
    names = tuple(classes) if len(classes) == size else tuple(map(str, range(size)))
    return ClassificationReport(
        classes=names,
        precision=counts.precision,
        recall=counts.recall,
        f1_score=counts.f1,
        support=counts.actual,
        predicted=counts.predicted,
        confusion_matrix=counts.matrix if isinstance(counts, Confusion) else None,
    )


@known_arguments()
@checked_arguments
def classification_report(
    trainer: Trainer, x: Any, y: Any = None, *, classes: Sequence[str] = ()
) -> ClassificationReport:
    """Computes precision, recall, F1 and the confusion matrix of a trainer's model on samples.

    Args:
        trainer: a trainer, with its current weights.
        x: inputs, as in `Trainer.fit`.
        y: targets, as in `Trainer.fit`: one-hot rows, labels, or values 0 or 1.
        classes: names of the classes; their numbers if left out.

    Raises:
        OptionError: if `trainer` is not a Trainer, or `classes` does not name all classes.
        DataError: if the samples do not fit the model, or the targets are not classes.
    """
    names = list_of_names("classes", classes) or ()
    data = trainer.session.open(x, y)
    counts = class_counter(check_classes(form_of(data, trainer.session.samples), data))
    count = len(counts.actual)
    if len(names) not in (0, count):
        raise OptionError("classes", f"must name all {count} classes", f"{len(names)} names")
    _evaluate(trainer, data, {"classes": counts})
    return make_report(counts, names)


@checked_arguments
def sample_losses(trainer: Trainer, x: Any, y: Any = None, sample_weight: Any = None) -> Array:
    """Computes the loss of each sample by a trainer's model, for example to find anomalies.

    Args:
        trainer: a trainer, with its current weights.
        x: inputs, as in `Trainer.fit`.
        y: targets (N, …), as in `Trainer.fit`.
        sample_weight: weights of the samples' losses, as in `Trainer.fit`.

    Returns:
        Losses (N,), float64. Their mean is the loss of `Trainer.evaluate`; with the reduction
        "sum", this is the mean over the batches of the sums of their losses.

    Raises:
        OptionError: if `trainer` is not a Trainer.
        DataError: if the samples do not fit the model.
    """
    session = trainer.session
    data = session.open(x, y, sample_weight)
    _, output = session.samples.losses[0]
    results = SampleResults(data.length, numbers_form(session.samples), output)
    _evaluate(trainer, data, each=results.add)
    return results.losses


def _evaluate(
    trainer: Trainer, data: DataSet, totals: Totals = NO_TOTALS, each: Each | None = None
) -> None:
    """Evaluates a trainer's model on all samples.

    Args:
        trainer: a trainer, with its current weights.
        data: the samples.
        totals: totals that are counted over all samples.
        each: called with the results of each sample, which then run one by one; None for none.
    """
    core = trainer.session.build()
    order = range(data.length)
    with trainer.evaluation.integer_form() as form:
        if form is not None:
            evaluator = form.evaluator(scales_of(data.weights))
            evaluator.run(data, order, {}, totals=totals, each=each)
            return
    rows = each is None and read_rows(totals)
    computation = Computation(trainer.session.recipe.losses, outputs=True, rows=rows)
    computation = computation.scaled(scales_of(data.weights))
    engine = core.runtime.engine(computation, micro_batch=1 if each else None)
    reduction = core.info.reduction
    with core.parameters.averaged():
        evaluate(engine, data, order, reduction, {}, rest=True, totals=totals, each=each)
