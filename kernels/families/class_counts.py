"""Counts of predicted and true classes, for precision, recall, F1 and confusion matrices.

For targets with one class per row, the class with the largest output is predicted. Independent
flags are predicted separately: each is true if its output is above the threshold.
"""

import numpy as np

from odt.kernels.rows.lossdef import IGNORED, LABELS
from odt.kernels.rows.metricdef import FLAGS, Metric, OutputForm, blocks, check_flags, labels_of
from odt.kernels.rows.opdef import Array

MAX_CLASSES = 4096  # of a confusion matrix: 128 MB


class ClassCounts(Metric):
    """Base class of metrics of classes.

    Attributes:
        correct: correctly predicted positions of each class (true positives).
        predicted: positions predicted as each class.
        actual: positions of each class (its support).
    """

    def __init__(self, form: OutputForm) -> None:
        super().__init__(form)
        self.by_row = form.targets == LABELS
        self.correct, self.predicted, self.actual = np.zeros((3, form.classes), np.int64)

    def update_rows(self, terms: Array, best: Array, t: Array) -> None:
        counts = t != IGNORED
        self._count(best[counts], t[counts])

    def update(self, y: Array, t: Array) -> None:
        classes = self.form.classes
        for outputs, targets in blocks(y, t, classes):
            if self.form.targets == FLAGS:
                check_flags(targets, "precision, recall and F1")
                predicted, true = outputs > self.form.threshold, targets > 0
                self.correct += np.count_nonzero(predicted & true, axis=0)
                self.predicted += np.count_nonzero(predicted, axis=0)
                self.actual += np.count_nonzero(true, axis=0)
            else:
                self._count(outputs.argmax(axis=1), labels_of(targets, self.form))

    def _count(self, best: Array, labels: Array) -> None:
        """Adds positions with their predicted classes and labels."""
        classes = self.form.classes
        self.correct += np.bincount(labels[best == labels], minlength=classes)
        self.predicted += np.bincount(best, minlength=classes)
        self.actual += np.bincount(labels, minlength=classes)

    @property
    def precision(self) -> Array:
        """Fraction of the positions predicted as each class that are correct; 0 without any."""
        return _ratio(self.correct, self.predicted)

    @property
    def recall(self) -> Array:
        """Fraction of the positions of each class that are predicted; 0 without positions."""
        return _ratio(self.correct, self.actual)

    @property
    def f1(self) -> Array:
        """Harmonic mean of precision and recall of each class."""
        return _ratio(2 * self.correct, self.predicted + self.actual)

    def summary(self, figure: str) -> float:
        """Averages a figure over classes (macro average); for flags, returns that of all flags.

        The macro average is over the classes that are true or predicted anywhere.

        Args:
            figure: precision, recall or f1.
        """
        if self.form.targets == FLAGS:
            whole = ClassCounts(OutputForm(FLAGS, 1))
            for name in ("correct", "predicted", "actual"):
                getattr(whole, name)[0] = getattr(self, name).sum()
            return float(getattr(whole, figure)[0])
        occurs = (self.predicted > 0) | (self.actual > 0)
        return float(getattr(self, figure)[occurs].mean()) if occurs.any() else 0.0


class Confusion(ClassCounts):
    """Counts of classes that exclude each other; a single flag is the classes 0 and 1.

    Attributes:
        matrix: number of positions by true class (rows) and predicted class (columns).
    """

    def __init__(self, form: OutputForm) -> None:
        self._flag = form.targets == FLAGS
        self._threshold = form.threshold
        super().__init__(OutputForm(LABELS, 2) if self._flag else form)
        self.matrix = np.zeros((self.form.classes,) * 2, np.int64)

    def update(self, y: Array, t: Array) -> None:
        if not self._flag:
            super().update(y, t)
            return
        for outputs, targets in blocks(y, t, 1):
            check_flags(targets, "confusion_matrix")
            predicted, true = outputs[:, 0] > self._threshold, targets[:, 0] > 0
            self._count(predicted.astype(np.int64), true.astype(np.int64))

    def _count(self, best: Array, labels: Array) -> None:
        super()._count(best, labels)
        np.add.at(self.matrix, (labels, best), 1)


def class_counter(form: OutputForm) -> ClassCounts:
    """Makes a Confusion if classes exclude each other and are not too many, else ClassCounts."""
    several = form.targets == FLAGS and form.classes > 1
    if several or form.classes > MAX_CLASSES:
        return ClassCounts(form)
    return Confusion(form)


def _ratio(part: Array, whole: Array) -> Array:
    return part / np.maximum(whole, 1)
