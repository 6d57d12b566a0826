"""F1: harmonic mean of precision and recall.

2 · correct / (predicted + actual). The value is the mean over the classes that are true or
predicted anywhere (macro average); for independent values, that of all values together, predicted
by the threshold 0.5 (micro average).

Source: scikit-learn's f1_score with average="macro"; for independent values
average="binary".
"""

from odt.kernels.families.class_counts import ClassCounts
from odt.kernels.rows.lossdef import LABELS
from odt.kernels.rows.metricdef import CLASS_ROWS, FLAGS, MetricDef


class F1Score(ClassCounts):
    def value(self) -> float:
        return self.summary("f1")


METRIC = MetricDef(
    "f1_score",
    F1Score,
    "2 · correct / (predicted + actual): mean over classes (macro), or of independent values "
    "together",
    (CLASS_ROWS, LABELS, FLAGS),
    words=("f1",),
    place=6,
)
