"""Recall: fraction of the positions of a class that are predicted as this class.

correct / actual. The value is the mean over the classes that are true or predicted anywhere (macro
average); for independent values, that of all values together, predicted by the threshold 0.5
(micro average).

Source: scikit-learn's recall_score with average="macro"; Keras' Recall for independent values.
"""

from odt.kernels.families.class_counts import ClassCounts
from odt.kernels.rows.lossdef import LABELS
from odt.kernels.rows.metricdef import CLASS_ROWS, FLAGS, MetricDef


class Recall(ClassCounts):
    def value(self) -> float:
        return self.summary("recall")


METRIC = MetricDef(
    "recall",
    Recall,
    "correct / actual: mean over classes (macro), or of independent values together",
    (CLASS_ROWS, LABELS, FLAGS),
    place=5,
)
