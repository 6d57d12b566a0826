"""Figures of classes as HTML: confusion matrix and table."""

from collections.abc import Mapping, Sequence

import numpy as np

from odt.charts.html import heat_table, paragraph, preformatted, scrolled, table
from odt.errors import one_line
from odt.kernels.rows.opdef import Array

MAX_CLASSES = 30  # of a matrix that is shown whole
MAX_NAME = 24  # characters of a class name in tables
CORNER = "true \\ predicted"  # of a confusion matrix


def confusion(matrix: Array, classes: Sequence[str], pairs: str) -> str:
    """Returns the confusion matrix as a table.

    Args:
        matrix: number of samples by true class (rows) and predicted class (columns) (C, C).
        classes: names of the classes.
        pairs: text that is shown instead of the matrix if there are more than MAX_CLASSES: the
            pairs of classes that are confused most often.
    """
    right, total = int(np.trace(matrix)), int(matrix.sum())
    summary = paragraph(f"{right} of {total} right: {100 * right / max(total, 1):.2f} %")
    if len(classes) > MAX_CLASSES:
        return summary + preformatted(pairs)
    names = [one_line(name, MAX_NAME) for name in classes]
    return summary + scrolled(heat_table(CORNER, names, matrix.tolist()))


def figures(classes: Sequence[str], columns: Mapping[str, Array], support: Array) -> str:
    """Returns a table of the figures of each class.

    Args:
        classes: names of the classes.
        columns: head of a column → its figures (C,).
        support: number of samples of each class (C,).
    """
    rows: list[tuple[str, ...]] = [("class", *columns, "samples")]
    for k, name in enumerate(classes):
        values = (f"{column[k]:.4f}" for column in columns.values())
        rows.append((one_line(name, MAX_NAME), *values, str(support[k])))
    return scrolled(table(rows, right=range(1, len(rows[0]))))
