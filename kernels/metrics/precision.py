"""Precision: fraction of the positions predicted as a class that have this class.

correct / predicted; 0 for a class that is never predicted. The value is the mean over the classes
that are true or predicted anywhere (macro average); for independent values, that of all
values together, predicted by the threshold 0.5 (micro average).

Source: scikit-learn's precision_score with average="macro"; Keras' Precision for
independent values.
"""

from odt.kernels.families.class_counts import ClassCounts
from odt.kernels.rows.lossdef import LABELS
from odt.kernels.rows.metricdef import CLASS_ROWS, FLAGS, MetricDef


class Precision(ClassCounts):
    def value(self) -> float:
        return self.summary("precision")


METRIC = MetricDef(
    "precision",
    Precision,
    "correct / predicted: mean over classes (macro), or of independent values together",
    (CLASS_ROWS, LABELS, FLAGS),
    place=4,
)
