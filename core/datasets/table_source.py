"""Tables as sources: samples of one row, or windows over rows of a series."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from odt.core.datasets.source import ArrayPart, Part, Sample, Source
from odt.core.datasets.table_targets import class_numbers, one_hot_tail, read_targets
from odt.core.datasets.table_text import is_number
from odt.core.datasets.tables import Table, TableOptions, read_table
from odt.core.storage.reading import listed
from odt.errors import DataError, OptionError
from odt.kernels.opdef import Array


class TablePart(ArrayPart):
    """Rows of a table; columns of words become one column for each word."""

    def __init__(self, table: Table, targets: Sequence[Array], classes: bool, name: str) -> None:
        super().__init__([table.values], targets, classes, name)
        self._texts = table.texts
        self._columns = [
            _ranks(table.layout.words[k]) if k in table.layout.words else None
            for k in table.layout.inputs
        ]

    def read(self, k: int) -> Sample:
        sample = super().read(k)
        return Sample((self.encoded(sample.inputs[0]),), sample.targets)

    def encoded(self, rows: Array) -> Array:
        """Values (…, inputs) with one-hot rows in place of numbers of words."""
        if not any(ranks is not None for ranks in self._columns):
            return rows
        parts = [
            rows[..., [k]] if ranks is None else _one_hot(rows[..., k], ranks)
            for k, ranks in enumerate(self._columns)
        ]
        return np.concatenate(parts, axis=-1)

    def groups(self, rule: str) -> Sequence[str]:
        if rule not in self._texts:
            raise OptionError(
                "group_by",
                f"must be one of the columns left out of the inputs "
                f"({listed(self._texts) or 'none'})",
                rule,
                f'Leave it out with `leave_out="{rule}"`.',
            )
        return self._texts[rule]


class WindowPart(Part):
    """Windows of rows (window, inputs); the target is that of a row at or after the last one."""

    def __init__(self, rows: TablePart, options: TableOptions) -> None:
        self._rows = rows
        self._window, self._ahead = options.window, options.horizon
        assert rows.length is not None
        bounds = [0, rows.length]
        if options.series:
            names = np.asarray(rows.groups(options.series))
            bounds = [0, *(np.flatnonzero(names[1:] != names[:-1]) + 1).tolist(), rows.length]
        starts = [
            np.arange(first, last - options.window - options.horizon + 1, options.stride)
            for first, last in pairwise(bounds)
        ]
        self._starts = np.concatenate(starts).astype(np.int64)
        self.length = len(self._starts)
        self.labels = None if rows.labels is None else rows.labels[self._target(self._starts)]

    def read(self, k: int) -> Sample:
        start = int(self._starts[k])
        rows = self._rows.encoded(self._rows.inputs[0][start : start + self._window])
        row = int(self._target(start))
        return Sample((rows,), tuple(np.asarray(t[row]) for t in self._rows.targets))

    def groups(self, rule: str) -> Sequence[str]:
        every = self._rows.groups(rule)
        return [every[k] for k in self._starts]

    def label_of(self, k: int) -> str:
        start = int(self._starts[k])
        return f"sample {k} (rows {start} to {start + self._window - 1})"

    def _target(self, start: "int | Array") -> "int | Array":
        return start + self._window - 1 + self._ahead


def _ranks(words: dict[str, int]) -> Array:
    """Number of a word as it was read → its position in sorted order."""
    ranks = np.empty(len(words), np.int64)
    ranks[[words[word] for word in sorted(words)]] = np.arange(len(words))
    return ranks


def _one_hot(numbers: Array, ranks: Array) -> Array:
    """One-hot rows; NaN for a missing word."""
    missing = np.isnan(numbers)
    if not len(ranks):
        return np.empty((*numbers.shape, 0))
    rows = np.eye(len(ranks))[ranks[np.where(missing, 0, numbers).astype(np.int64)]]
    return np.where(missing[..., None], np.nan, rows)


def open_table(path: Path, options: TableOptions, targets_path: Path | None = None) -> Source:
    """Opens a table as a source with one part.

    Args:
        path: the table.
        options: options for reading it.
        targets_path: a second table whose only column is the target.

    Raises:
        DataError: if a table cannot be read, or has no such columns.
    """
    if targets_path is None:
        table = read_table(path, options)
        cells, names = table.targets, [table.names[k] for k in table.layout.labels]
    else:
        table = read_table(path, replace(options, label="none"))
        plain = TableOptions(delimiter=options.delimiter, header=options.header, drop=options.drop)
        other = read_table(targets_path, plain, only_targets=True)
        cells, names = other.targets, ["target"]
        if len(cells) != len(table.values):
            raise DataError(
                f"{targets_path}: must have a line for each of {path}, but got {len(cells)} for "
                f"{len(table.values)}."
            )
    return table_source(path, table, cells, names, options)


def table_source(
    path: Path,
    table: Table,
    cells: Sequence[Sequence[str]],
    names: Sequence[str],
    options: TableOptions,
) -> Source:
    """A source with the rows or windows of a table.

    Args:
        path: the table, for messages.
        table: what was read.
        cells: cells of the targets of each row; empty without targets.
        names: names of the target columns.
        options: options for reading it.
    """
    targets: list[Array] = []
    classes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    if cells and options.classes and len(names) == 1:
        classes = options.classes
        targets = [class_numbers(path, [row[0] for row in cells], classes)]
    elif cells:
        regression = None if not options.like else not options.classes
        asked = options.regression if options.regression is not None else regression
        target, found, are_classes = read_targets(path, cells, names, table.classes, asked)
        classes, tags = (found, ()) if are_classes else ((), found)
        targets = [target]
    rows = TablePart(table, targets, bool(classes), str(path))
    part: Part = rows
    overlap = 0
    if options.window:
        part, span = WindowPart(rows, options), options.window + options.horizon
        overlap = -(-span // options.stride) - 1
        if not part.length:
            raise DataError(
                f"{path}: must have {options.window + options.horizon} rows for a window, but has "
                f"{rows.length} in all series."
            )
    described = table.describe()
    if options.window:
        described |= {"window": options.window, "stride": options.stride}
        described |= {"horizon": options.horizon, "series": options.series}
    return Source(
        str(path), "features", {"all": part}, classes, tags=tags, overlap=overlap,
        origin={"left out": table.left_out}, table=described,
        notes=_notes(path, table, options),
    )  # fmt: skip


def _notes(path: Path, table: Table, options: TableOptions) -> tuple[str, ...]:
    """A warning for a table whose last columns are classes in one-hot form."""
    layout, last = table.layout, len(table.names) - 1
    if options.like or [*layout.labels] != [last] or layout.words or not len(table.values):
        return ()
    if not all(is_number(row[0]) for row in table.targets):
        return ()
    target = np.array([float(row[0]) for row in table.targets])
    tail = one_hot_tail(table.values, target) if [*layout.inputs] == [*range(last)] else 0
    if not tail:
        return ()
    return (
        f"Warning: {path}: the last {tail + 1} columns are one-hot rows, but only the last is "
        f'taken as the target. Give `label_column="{last - tail}-{last}"`.',
    )
