"""Area under the ROC curve: probability that a positive has a larger output than a negative.

(Σ over pairs of a positive and a negative: 1 if the positive is larger, ½ if both are equal) /
number of pairs. Exact, from all outputs: they stay in memory, 4 bytes each, until the pass ends.
For classes, it is computed for each class against all others and averaged over the classes with
positives and negatives (macro average); for independent values, over all values together. NaN if no
class has both.

Source: scikit-learn's roc_auc_score with multi_class="ovr", average="macro"; for
independent values average="micro". Probabilities of logits are those of softmax.
"""

import math

import numpy as np

from odt.kernels.rows.lossdef import LABELS
from odt.kernels.rows.metricdef import (
    CLASS_ROWS,
    FLAGS,
    Metric,
    MetricDef,
    OutputForm,
    blocks,
    check_flags,
    labels_of,
)
from odt.kernels.rows.opdef import Array

POSITION_BYTES = 80  # of each position: its label, and memory to sort the outputs of a class


class Auc(Metric):
    def __init__(self, form: OutputForm) -> None:
        super().__init__(form)
        self.flags = form.targets == FLAGS
        self.width = 1 if self.flags else form.classes
        self.outputs: list[Array] = []
        self.targets: list[Array] = []

    def update(self, y: Array, t: Array) -> None:
        for outputs, targets in blocks(y, t, self.width):
            if self.flags:
                check_flags(targets, METRIC.name)
                self.outputs.append(outputs.copy())
                self.targets.append(targets[:, 0] > 0)
            else:
                self.outputs.append(softmax(outputs) if self.form.logits else outputs.copy())
                self.targets.append(labels_of(targets, self.form).copy())

    def nbytes(self, values: int) -> int:
        return 4 * values + POSITION_BYTES * (values // self.width)

    def value(self) -> float:
        if not self.outputs:
            return math.nan
        targets = np.concatenate(self.targets)
        areas = []
        for k in range(self.width):
            outputs = np.concatenate([block[:, k] for block in self.outputs])
            areas.append(area(outputs, targets if self.flags else targets == k))
        defined = [a for a in areas if not math.isnan(a)]
        return math.fsum(defined) / len(defined) if defined else math.nan


def area(outputs: Array, positive: Array) -> float:
    """Computes the area under the ROC curve of outputs; NaN without positives or negatives."""
    if positive.all() or not positive.any():
        return math.nan
    order = np.argsort(outputs)
    outputs, positive = outputs[order], positive[order]
    ends = np.flatnonzero(np.append(outputs[1:] != outputs[:-1], True))  # of equal outputs
    positives = np.cumsum(positive, dtype=np.int64)[ends]
    negatives = ends + 1 - positives
    pairs = int(positives[-1]) * int(negatives[-1])
    larger = np.diff(positives, prepend=0) * (negatives - np.diff(negatives, prepend=0) / 2)
    return float(larger.sum()) / pairs


def softmax(x: Array) -> Array:
    """Computes the probabilities of rows of logits."""
    p = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


METRIC = MetricDef(
    "auc",
    Auc,
    "area under the ROC curve: mean over classes, each against the others, or of independent "
    "values together",
    (CLASS_ROWS, LABELS, FLAGS),
    place=7,
)
