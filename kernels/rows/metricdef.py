"""MetricDef, the row that declares a metric, and the base classes of metrics.

A metric is accumulated over the batches of a pass from outputs y and targets t. Its value is
computed over all samples together, for any batch size. The last axis of an output is the classes,
as in the losses. Metrics process some rows at a time, so that scratch memory does not grow with the
batch, and leave out rows whose label is ignored.
"""

from collections.abc import Callable, Iterator

import numpy as np

from odt.dataclass import dataclass
from odt.errors import DataError
from odt.kernels.rows.lossdef import DISTRIBUTIONS, FRACTIONS, IGNORED, LABELS
from odt.kernels.rows.opdef import Array

ROWS, VALUES = 1024, 2**20  # processed at a time, at most

# Forms of targets that metrics distinguish; LABELS is one, too.
CLASS_ROWS = "rows with one value for each class"
FLAGS = "independent values that are 0 or 1"
NUMBERS = "values"


@dataclass(frozen=True, slots=True)
class OutputForm:
    """Form of the outputs and targets that a metric compares.

    Attributes:
        targets: CLASS_ROWS, LABELS, FLAGS or NUMBERS.
        classes: number of values along the last axis of the output.
        logits: whether the output holds logits instead of probabilities.
    """

    targets: str
    classes: int
    logits: bool = False

    @property
    def threshold(self) -> float:
        """The output above which a flag is predicted: probability 0.5."""
        return 0.0 if self.logits else 0.5


def forms_of(targets: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Returns the forms in which metrics can read targets, the preferred one first.

    Args:
        targets: form of the targets of a loss, a word of kernels/rows/lossdef.py.
        shape: shape of one sample of the output.
    """
    if targets == LABELS:
        return (LABELS,)
    if targets == DISTRIBUTIONS:
        return CLASS_ROWS, NUMBERS
    if targets == FRACTIONS or shape[-1:] in ((), (1,)):
        return FLAGS, NUMBERS
    return CLASS_ROWS, FLAGS, NUMBERS


class Metric:
    """Base class of metrics.

    Attributes:
        by_row: whether `update_rows` is enough, so that plans need not hold the outputs.
    """

    by_row = False

    def __init__(self, form: OutputForm) -> None:
        """Makes a metric without samples.

        Args:
            form: form of the outputs and targets.
        """
        self.form = form

    def update(self, y: Array, t: Array) -> None:
        """Adds outputs (N, …) and their targets."""
        raise NotImplementedError

    def update_rows(self, terms: Array, best: Array, t: Array) -> None:
        """Adds what is known of rows of outputs with one label each; all arrays are (R,).

        Args:
            terms: −log p of the label.
            best: place of the largest output; the first one of equal ones.
            t: the labels; rows whose label is ignored are left out.
        """
        raise NotImplementedError

    def value(self) -> float:
        """Returns the metric over all samples so far."""
        raise NotImplementedError

    def nbytes(self, values: int) -> int:
        """Returns the bytes of memory that the metric needs after `values` output values."""
        return 0


class MeanMetric(Metric):
    """Base class of metrics that are a mean over rows.

    Attributes:
        by_class: whether a row is the values of all classes; otherwise each value is a row.
        total: sum over all rows so far.
        count: number of rows so far.
    """

    by_class = True

    def __init__(self, form: OutputForm) -> None:
        super().__init__(form)
        self.total = 0.0
        self.count = 0

    def update(self, y: Array, t: Array) -> None:
        width = y.shape[-1] if self.by_class else 1
        for outputs, targets in blocks(y, t, width):
            self.total += self.sum(outputs, targets)
            self.count += len(outputs)

    def update_rows(self, terms: Array, best: Array, t: Array) -> None:
        counts = t != IGNORED
        self.total += self.sum_of_rows(terms[counts], best[counts], t[counts])
        self.count += int(np.count_nonzero(counts))

    def sum_of_rows(self, terms: Array, best: Array, t: Array) -> float:
        """Returns the sum over some rows, as of `update_rows`, if `by_row` is set."""
        raise NotImplementedError

    def sum(self, y: Array, t: Array) -> float:
        """Returns the sum over some rows of outputs (R, width) and their targets (R, …)."""
        raise NotImplementedError

    def value(self) -> float:
        return self.total / self.count if self.count else 0.0


def blocks(y: Array, t: Array, width: int) -> Iterator[tuple[Array, Array]]:
    """Yields blocks of rows of `width` values of y, with the rows of t, without ignored labels."""
    y = y.reshape(-1, width, copy=False)
    t = t.reshape(len(y), -1, copy=False)
    rows = min(ROWS, max(VALUES // width, 1))
    for at in range(0, len(y), rows):
        outputs, targets = y[at : at + rows], t[at : at + rows]
        if t.dtype.kind == "i" and targets.min() < 0:
            counts = targets[:, 0] != IGNORED
            outputs, targets = outputs[counts], targets[counts]
        yield outputs, targets


def labels_of(t: Array, form: OutputForm) -> Array:
    """Returns the class of each row of targets (R, C) or (R, 1)."""
    return t[:, 0] if form.targets == LABELS else t.argmax(axis=1)


def check_flags(t: Array, metric: str) -> None:
    """Raises DataError if a target is neither 0 nor 1.

    Args:
        t: targets.
        metric: name of the metric.
    """
    other = t[(t != 0) & (t != 1)]
    if other.size:
        raise DataError(
            f"`{metric}`: targets must be 0 or 1, but got {other[0]:g}. "
            "For other numbers use `mean_absolute_error` or `r2`."
        )


@dataclass(frozen=True, slots=True)
class MetricDef:
    """The row of a metric.

    Attributes:
        name: name on the command line, with underscores. A number may stand for `k` in
            it: top_5_accuracy selects the metric top_k_accuracy.
        make: makes the metric at the beginning of a pass, for the form of outputs and targets and,
            if the name has one, the number k.
        formula: formula of the metric over a pass, for the documentation.
        fits: forms of targets that it supports.
        words: further names, which are Keras'.
        k: default of the number k; 0 for a metric without k.
        onert: number of the metric in onert_train.
        place: position in lists of metrics; metrics with the same position are sorted by name.
    """

    name: str
    make: Callable[..., Metric]
    formula: str
    fits: tuple[str, ...]
    words: tuple[str, ...] = ()
    k: int = 0
    onert: int | None = None
    place: int = 100
