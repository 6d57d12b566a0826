"""Tables as sources: samples of one row, or windows over rows of a series."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from odt.core.storage.reading import listed
from odt.datasets.folders import matches
from odt.datasets.source import ArrayPart, Part, Sample, Source
from odt.datasets.table_cells import NumberCells, WordCells, is_number
from odt.datasets.table_targets import class_numbers, one_hot_tail, read_targets
from odt.datasets.tables import Table, TableOptions, read_table
from odt.errors import DataError, OptionError
from odt.kernels.rows.opdef import Array

FILE = "(file)"  # column that names the file of a row, in a folder of tables


class TablePart(ArrayPart):
    """Rows of a table; columns of words become one column for each word."""

    def __init__(self, table: Table, targets: Sequence[Array], classes: bool, name: str) -> None:
        super().__init__([table.values], targets, classes, name)
        self._texts = table.texts
        self._table = table
        self.columns = [table.layout.cells[k] for k in table.layout.inputs]
        self._ranks = [_ranks(c.numbers) if isinstance(c, WordCells) else None
                       for c in self.columns]  # fmt: skip

    def read(self, k: int) -> Sample:
        sample = super().read(k)
        return Sample((self.encoded(sample.inputs[0]),), sample.targets)

    def encoded(self, rows: Array) -> Array:
        """Returns values (…, numbers) with one-hot rows in place of numbers of words."""
        if not any(ranks is not None for ranks in self._ranks):
            return rows
        parts = []
        first = 0
        for cells, ranks in zip(self.columns, self._ranks, strict=True):
            values = rows[..., first : first + cells.width]
            parts.append(values if ranks is None else _one_hot(values[..., 0], ranks))
            first += cells.width
        return np.concatenate(parts, axis=-1)

    def label_of(self, k: int) -> str:
        return self._table.where(self._table.lines[k])

    def series(self, column: str) -> list[int]:
        """Returns the first rows of all series, and the number of rows: no window leaves a series.

        Args:
            column: column whose value is the same in a series; empty for none.
        """
        columns: list[Sequence[str]] = [self._table.splits] if self._table.splits else []
        columns += [self._texts[FILE]] if FILE in self._texts else []
        columns += [self.groups(column)] if column else []
        bounds = {0, len(self._table.lines)}
        for cells in columns:
            values = np.asarray(cells)
            bounds |= {*(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()}
        return sorted(bounds)

    def groups(self, rule: str) -> Sequence[str]:
        if rule not in self._texts and FILE in self._texts:
            return matches(rule, self._texts[FILE])
        if rule not in self._texts:
            raise OptionError(
                "group_by",
                f"must be one of the columns left out of the inputs "
                f"({listed(self._texts) or 'none'})",
                rule,
                f'Leave it out with `leave_out="{rule}"`.',
            )
        return self._texts[rule]


class SomePart(Part):
    """Some samples of a part."""

    def __init__(self, part: Part, numbers: Array) -> None:
        self._part = part
        self._numbers = numbers
        self.length = len(numbers)
        self.labels = None if part.labels is None else part.labels[numbers]

    def read(self, k: int) -> Sample:
        return self._part.read(int(self._numbers[k]))

    def label_of(self, k: int) -> str:
        return self._part.label_of(int(self._numbers[k]))

    def groups(self, rule: str) -> Sequence[str]:
        groups = self._part.groups(rule)
        return [groups[k] for k in self._numbers]


class WindowPart(Part):
    """Windows of rows (window, inputs); the target is that of a row at or after the last one."""

    def __init__(self, rows: TablePart, options: TableOptions) -> None:
        assert rows.length is not None, "arrays have a length"
        # More rows than the table has are as good as one more: there is no such window.
        window, horizon, stride = (
            min(n, rows.length + 1) for n in (options.window, options.horizon, options.stride)
        )
        self._rows, self._window, self._horizon = rows, window, horizon
        starts = [
            np.arange(first, last - window - horizon + 1, stride)
            for first, last in pairwise(rows.series(options.series))
        ]
        self._starts = np.concatenate(starts).astype(np.int64)
        self.first_row = self._starts
        self.series = tuple(len(series) for series in starts if len(series))
        self.length = len(self._starts)
        self.labels = None if rows.labels is None else rows.labels[self._target(self._starts)]

    def read(self, k: int) -> Sample:
        start = int(self._starts[k])
        rows = self._rows.encoded(self._rows.inputs[0][start : start + self._window])
        row = int(self._target(start))
        return Sample((rows,), tuple(np.asarray(t[row]) for t in self._rows.targets))

    def groups(self, rule: str) -> Sequence[str]:
        groups = self._rows.groups(rule)
        return [groups[k] for k in self._starts]

    def label_of(self, k: int) -> str:
        start = int(self._starts[k])
        first, last = (self._rows.label_of(start + n) for n in (0, self._window - 1))
        return f"sample {k} ({first} to {last})"

    def _target(self, start: int | Array) -> int | Array:
        """Returns the row of the target of a window, by the first row of the window."""
        return start + self._window - 1 + self._horizon


def _ranks(words: dict[str, int]) -> Array:
    """Returns, for each word by its number as it was read, its position in sorted order."""
    ranks = np.full(len(words) + 1, len(words))  # the last one is that of unknown words, −1
    ranks[[words[word] for word in sorted(words)]] = np.arange(len(words))
    return ranks


def _one_hot(numbers: Array, ranks: Array) -> Array:
    """Returns one-hot rows; zeros for a word that is not known, NaN for a missing one."""
    missing = np.isnan(numbers)
    words = len(ranks) - 1
    rows = np.eye(words + 1, words)[ranks[np.where(missing, 0, numbers).astype(np.int64)]]
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
        cells = table.targets
        names = [table.names[k] for k in table.layout.labels]
    else:
        table = read_table(path, replace(options, label="none", drop=False))
        plain = TableOptions(delimiter=options.delimiter, header=options.header)
        other = read_table(targets_path, plain, only_targets=True)
        cells = other.targets
        names = ["target"]
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
    """Returns a source with the rows or windows of a table.

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
        regression = options.regression
        if regression is None and options.like:
            regression = not options.classes  # as in the training data
        target, target_names, are_classes = read_targets(
            path, cells, names, table.classes, regression
        )
        targets = [target]
        if are_classes:
            classes = target_names
        else:
            tags = target_names
    rows = TablePart(table, targets, bool(classes), str(path))
    part: Part = rows
    overlap = 0
    series: tuple[int, ...] = ()
    first_row = np.arange(len(table.lines))
    if options.window:
        windows = WindowPart(rows, options)
        span = options.window + options.horizon
        overlap = math.ceil(span / options.stride) - 1
        if not windows.length:
            raise DataError(
                f"{path}: must have {span} rows for a window, but has {rows.length} in all series."
            )
        part = windows
        series = windows.series
        first_row = windows.first_row
    parts: dict[str, Part] = {"all": part}
    if table.splits:
        splits = np.asarray(table.splits)[first_row]
        series = ()
        parts = {name: SomePart(part, np.flatnonzero(splits == name))
                 for name in ("train", "validation", "test") if name in splits}  # fmt: skip
    described = table.describe()
    if options.window:
        described |= {"window": options.window, "stride": options.stride}
        described |= {"horizon": options.horizon, "series": options.series}
    if options.drop_targets:
        described |= {"missing target": "drop"}
    notes = (*table.notes, *_notes(path, table, options))
    table.targets = []  # of large tables, half of what is in memory
    left_out = {reason: len(lines) for reason, lines in table.left_out.items()}
    columns = [name for k in table.layout.inputs
               for name in table.layout.cells[k].names(table.names[k])]  # fmt: skip
    return Source(
        str(path), "features", parts, classes, tags=tags, overlap=overlap,
        origin={"left out": left_out}, table=described, series=series, columns=tuple(columns),
        notes=notes,
    )  # fmt: skip


def _notes(path: Path, table: Table, options: TableOptions) -> tuple[str, ...]:
    """Returns a warning for a table whose last columns are classes in one-hot form."""
    layout = table.layout
    last = len(table.names) - 1
    plain = all(isinstance(cells, NumberCells) for cells in layout.cells.values())
    if options.like or [*layout.labels] != [last] or not plain or not len(table.values):
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
