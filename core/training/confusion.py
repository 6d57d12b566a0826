"""Counts of true and predicted classes, with the confusion matrix where classes exclude others."""

import numpy as np

from odt.kernels.families.class_counts import ClassCounts
from odt.kernels.lossdef import LABELS
from odt.kernels.metricdef import FLAGS, OutputForm, blocks, check_flags, labels_of
from odt.kernels.opdef import Array

MOST_CLASSES = 4096  # of a confusion matrix: 128 MB


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
        if self._flag:
            check_flags(t, "confusion_matrix")
            y = np.stack([np.full_like(y, self._threshold), y], axis=-1)
            t = t.astype(np.int64)
        super().update(y, t)
        for a, b in blocks(y, t, self.form.classes):
            np.add.at(self.matrix, (labels_of(b, self.form), a.argmax(axis=1)), 1)


def class_counter(form: OutputForm) -> ClassCounts:
    """Makes a Confusion if classes exclude each other and are not too many, else ClassCounts."""
    several = form.targets == FLAGS and form.classes > 1
    return (ClassCounts if several or form.classes > MOST_CLASSES else Confusion)(form)
