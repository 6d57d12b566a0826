"""Targets of tables: classes, values, and classes or tags in columns of 0 and 1."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from odt.core.storage.reading import listed, printable
from odt.datasets.table_cells import is_missing, is_number, number_in
from odt.errors import DataError
from odt.kernels.rows.opdef import Array

MAX_CLASSES = 1000
# A column of numbers is taken for values, not classes, if more than so many of them differ, and
# more than half of all lines.
USUAL_CLASSES = 20
EXACT = 2.0**53  # float64 represents every integer up to this


def read_targets(
    path: Path,
    cells: Sequence[Sequence[str]],
    names: Sequence[str],
    header_classes: tuple[str, ...],
    regression: bool | None,
) -> tuple[Array, tuple[str, ...], bool]:
    """Returns targets, names of classes or columns, and whether targets are class numbers.

    Args:
        path: the table, for messages.
        cells: cells of the target columns of each row.
        names: names of the target columns.
        header_classes: class names in the first line, as in scikit-learn's files.
        regression: whether targets are values; None to decide by the cells.

    Raises:
        DataError: if the cells are neither classes nor values, or a target is missing.
    """
    if len(names) == 1:
        target, classes = _read_column(path, [row[0] for row in cells], header_classes, regression)
        return target, classes, bool(classes)
    numbers = [[number_in(c) for c in row] for row in cells]
    for row, numbers_of_row in zip(cells, numbers, strict=True):
        if None in numbers_of_row:
            raise DataError(
                f"{path}: several target columns must hold numbers, but got {listed(row)}."
            )
    values = np.array(numbers, np.float64)
    _check_finite(path, values)
    if not regression and is_one_hot(values):
        return values.argmax(axis=1).astype(np.int32), tuple(names), True
    return values.astype(np.float32), tuple(names), False


def is_one_hot(values: Array) -> bool:
    """Whether each row has one 1 and otherwise 0."""
    return bool(((values == 0) | (values == 1)).all() and (values.sum(axis=1) == 1).all())


def one_hot_tail(values: Array, target: Array) -> int:
    """Returns how many last input columns are one-hot rows together with the target; else 0.

    Args:
        values: inputs (rows, columns).
        target: values of the last column of the file.
    """
    total = np.array(target, np.float64)
    if not np.isin(total, (0, 1)).all():
        return 0
    for k in range(1, values.shape[1] + 1):
        column = values[:, -k]
        if not np.isin(column, (0, 1)).all():
            return 0
        total = total + column
        if total.max() > 1:
            return 0
        if total.min() == 1:
            return k
    return 0


def class_numbers(path: Path, cells: Sequence[str], classes: Sequence[str]) -> Array:
    """Returns the numbers of the classes of rows, by the names of the training data.

    Raises:
        DataError: for a class that the training data do not have.
    """
    numbers = {name: k for k, name in enumerate(classes)}
    by_value = {number_in(name): k for name, k in numbers.items()}
    by_value.pop(None, None)
    rows = []
    for cell in cells:
        k = numbers.get(cell, by_value.get(number_in(cell)))
        if k is None:
            raise DataError(f"{path}: classes must be {listed(classes)}, but got {cell}.")
        rows.append(k)
    return np.asarray(rows, np.int32)


def _check_finite(path: Path, values: Array) -> None:
    """Raises DataError if a value is NaN, infinite or too large for float32."""
    if not (np.abs(values) <= np.finfo(np.float32).max).all():
        raise DataError(f"{path}: a target for regression must be finite in float32.")


def _read_column(
    path: Path, cells: list[str], names: tuple[str, ...], regression: bool | None
) -> tuple[Array, tuple[str, ...]]:
    """Returns class numbers and class names, or values and no names, of one target column."""
    numbers = [number_in(c) for c in cells]
    if "" in cells or (None in numbers and all(map(is_number, cells))):
        missing = next(c for c in cells if is_missing(c))
        raise DataError(f"{path}: each sample must have a target, but one has '{missing}'.")
    values = None if None in numbers else np.array(numbers, np.float64)
    if regression is None:
        regression = values is not None and bool((values != np.rint(values)).any())
    if regression:
        if values is None:
            word = printable(cells[numbers.index(None)], 40)
            raise DataError(f"{path}: a target for regression must be a number, but got '{word}'.")
        _check_finite(path, values)
        return values.astype(np.float32), ()
    if values is not None and (values != np.rint(values)).any():
        raise DataError(f"{path}: a class must be a whole number or a word.")
    if values is not None and (np.abs(values) < EXACT).all():
        whole = values.astype(np.int64)
        if names and whole.min() >= 0 and whole.max() < len(names):
            return whole.astype(np.int32), names
        distinct, labels = np.unique(whole, return_inverse=True)
    else:  # words, or numbers too large for float64 to distinguish
        distinct, labels = np.unique(np.asarray(cells), return_inverse=True)
    are_values = values is not None and len(distinct) > max(USUAL_CLASSES, len(cells) / 2)
    if len(distinct) > MAX_CLASSES or are_values:
        raise DataError(
            f"{path}: the target has {len(distinct)} different values in {len(cells)} lines, too "
            "many for classes. Give `regression=True` if it is a number to predict."
        )
    return labels.astype(np.int32), tuple(str(f) for f in distinct)
