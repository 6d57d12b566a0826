"""Classes of samples, matched by name with the classes of a model."""

import os
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from odt.core.data.columns import open_columns
from odt.core.recipe.option_values import list_of_names
from odt.core.storage.reading import listed, reading
from odt.dataclass import dataclass
from odt.datasets.statistics import open_any
from odt.errors import DataError, OptionError

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class LabeledSamples:
    """Classes of samples.

    Attributes:
        labels: number of the class of each sample (N,).
        names: names of the classes by number; empty if the numbers are those of the model.
    """

    labels: Array
    names: tuple[str, ...] = ()


def labels_of(y: Any, classes: Sequence[str] | None = None) -> LabeledSamples:
    """Reads the classes of samples.

    Args:
        y: labels (N,), class names (N,), one-hot rows (N, C), or the path of a data file with one
            of these.
        classes: names of the classes by label or column. Default: those of the file, if any. If
            the file names its classes, these are matched with `classes` by name.

    Raises:
        DataError: if the values are not classes.
        OptionError: if there are fewer names than classes, a name comes twice, a file has another
            class, or `classes` is not a list of names.
    """
    names = list_of_names("classes", classes) or ()
    if len({*names}) < len(names):
        raise OptionError("classes", "must name each class once", listed(names))
    names_beside: tuple[str, ...] = ()
    if isinstance(y, str | os.PathLike):
        where = os.fspath(y)
        rows, names_beside = _read(where)
    else:
        where = "y"
        with reading(where, "must be an array of classes"):
            rows = np.asarray(y)
    if not rows.size:
        raise DataError(f"{where}: must hold samples, but holds none.")
    if rows.ndim == 1 and rows.dtype.kind in "UTO" and all(isinstance(n, str) for n in rows):
        all_names = names or tuple(dict.fromkeys(map(str, rows)))
        numbers = {name: k for k, name in enumerate(all_names)}
        missing = [str(n) for n in dict.fromkeys(rows) if n not in numbers]
        if missing:
            raise DataError(f"{where}: must hold names in `classes=`, but got {listed(missing)}.")
        return LabeledSamples(np.array([numbers[str(n)] for n in rows], np.intp), all_names)
    labels = _numbers(where, rows)
    if names_beside and names and not all(map(str.isdecimal, names_beside)):
        if not set(names_beside) <= set(names):
            rule = f"must have the classes beside {where}, {listed(names_beside)}"
            raise OptionError("classes", rule, listed(names))
        numbers_of_beside = np.array([names.index(n) for n in names_beside], np.intp)
        return LabeledSamples(numbers_of_beside[labels], names)
    names = names or names_beside
    if names and labels.max() >= len(names):
        rule = f"must name all {labels.max() + 1} classes of the samples"
        raise OptionError("classes", rule, listed(names))
    return LabeledSamples(labels, names)


def _read(path: str) -> tuple[Array, tuple[str, ...]]:
    """Reads all targets of a file, and the class names beside it."""
    columns, sidecar = open_any(path)
    if len(columns) != 1:
        raise DataError(f"{path}: must hold one array of classes, but holds {len(columns)}.")
    (column,) = open_columns(path, [columns[0].spec], "expected output")
    rows = np.empty((column.length, *column.spec.shape), column.spec.dtype)
    column.read(slice(0, column.length), rows.reshape(column.length, -1))
    return rows, sidecar.classes if sidecar else ()


def _numbers(where: str, rows: Array) -> Array:
    """Returns the classes (N,) of labels or one-hot rows; raises DataError for other values."""
    if rows.dtype.kind not in "iubf" or rows.ndim not in (1, 2):
        raise DataError(
            f"{where}: must be labels (N,), class names (N,) or one-hot rows (N, C), but got "
            f"{rows.shape} {rows.dtype}."
        )
    if rows.ndim == 2 and rows.shape[1] > 1:
        if not (np.isin(rows, (0, 1)).all() and (rows.sum(axis=1) == 1).all()):
            raise DataError(f"{where}: rows must be one-hot, but got other values.")
        return np.asarray(rows.argmax(axis=1))
    labels = rows.reshape(-1)
    if not ((labels >= 0) & (labels == np.floor(labels)) & (labels < 2**31)).all():
        raise DataError(f"{where}: labels must be whole numbers of at least 0, but got others.")
    return labels.astype(np.intp)


def match_classes(samples: LabeledSamples, classes: Sequence[str], count: int) -> LabeledSamples:
    """Numbers the classes of samples as a model does; new ones follow the model's.

    Args:
        samples: classes of the samples.
        classes: names of the model's classes; empty if they are not known.
        count: number of classes of the model.

    Returns:
        The labels, and the names of all classes, with numbers for unknown names.

    Raises:
        DataError: if a new class has no samples.
        OptionError: if samples have names, but those of the model's classes are not known.
    """
    if not samples.names:
        names = [*(classes or map(str, range(count)))]
        new_numbers = range(count, samples.labels.max() + 1)
        empty = sorted(set(new_numbers) - set(samples.labels.tolist()))
        if empty:
            raise DataError(
                f"y: new classes must have samples, but {listed(empty)} of the classes above "
                f"{count - 1}, the model's last, have none."
            )
        return LabeledSamples(samples.labels, (*names, *map(str, new_numbers)))
    if not classes and len(samples.names) != count:
        rule = f"must be the {count} classes of the model, whose names are not known yet"
        remedy = "Name them all, in their order."
        raise OptionError("classes", rule, listed(samples.names), remedy)
    classes = classes or samples.names
    occurring = [samples.names[k] for k in np.unique(samples.labels)]
    names = [*classes, *(n for n in occurring if n not in classes)]
    # A class without samples may have no number; its place in the table is never read.
    numbers = np.array([names.index(n) if n in names else 0 for n in samples.names], np.intp)
    return LabeledSamples(numbers[samples.labels], tuple(names))
