"""Reads tables of text: CSV, TSV, or columns separated by blanks, optionally gzipped.

The numbers of a table go to an unnamed temporary file, so that a table may be larger than memory.
"""

import csv
import dataclasses
import io
import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import field
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from odt.core.datasets.source import ArrayPart, Source
from odt.core.datasets.tree import unpacked
from odt.core.storage.reading import listed, printable, reading
from odt.dataclass import dataclass
from odt.errors import DataError, OptionError
from odt.kernels.opdef import Array

MISSING = frozenset(["", "?", "na", "n/a", "nan", "null", "none"])
MOST_CLASSES = 1000
EXACT = 2.0**53  # below it, float64 tells every whole number from the next


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Options for reading a table.

    Attributes:
        label: name or number of the target's column, from 0, negative from the end; "none" if
            samples have no targets.
        header: whether the first line holds column names; None to detect that.
        delimiter: "" to detect it; " " for any number of blanks.
        leave_out: names or numbers of columns that are not inputs.
        regression: whether the target is a value; None for a target that is neither integer nor
            word.
        drop: leave out lines with missing values.
        skip: leave out lines with another number of cells.
    """

    label: str = "-1"
    header: bool | None = None
    delimiter: str = ""
    leave_out: tuple[str, ...] = ()
    regression: bool | None = None
    drop: bool = False
    skip: bool = False


@dataclasses.dataclass(slots=True)
class Table:
    """Numbers read from text.

    Attributes:
        names: names of the input columns.
        values: mapped array (rows, columns) of float64; NaN for missing values.
        targets: cells of the target's column as text; empty without targets.
        texts: name → cells of columns that are no inputs, for groups.
        has_header: whether the first line holds the names.
        columns: name and role of each column, in the order of the file.
        classes: class names in the first line, as in scikit-learn's files.
    """

    names: list[str]
    values: Array
    targets: list[str]
    texts: dict[str, list[str]]
    has_header: bool = False
    columns: list[dict[str, Any]] = field(default_factory=list)
    classes: tuple[str, ...] = ()
    left_out: int = field(default=0)


class TablePart(ArrayPart):
    """Rows of a table, whose text columns can be groups."""

    def __init__(self, table: Table, targets: Sequence[Array], classes: bool) -> None:
        super().__init__([table.values], targets, classes)
        self._texts = table.texts

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
    else:
        table = read_table(path, _with_label(options, "none"))
        other = read_table(targets_path, _with_label(options, "-1"), only_targets=True)
        cells = other.targets
        if len(cells) != len(table.values):
            raise DataError(
                f"{targets_path}: must have a line for each of {path}, but got {len(cells)} for "
                f"{len(table.values)}."
            )
    targets: list[Array] = []
    classes: tuple[str, ...] = ()
    if targets_path is not None or options.label != "none":
        target, classes = _targets(path, cells, table.classes, options.regression)
        targets = [target]
    part = TablePart(table, targets, bool(classes))
    return Source(
        str(path), "features", {"all": part}, classes,
        origin={"left out": table.left_out},
        table={"header": table.has_header, "columns": table.columns},
    )  # fmt: skip


def _with_label(options: TableOptions, label: str) -> TableOptions:
    return TableOptions(
        label, options.header, options.delimiter, options.leave_out, options.regression,
        options.drop, options.skip,
    )  # fmt: skip


def read_table(path: Path, options: TableOptions, only_targets: bool = False) -> Table:
    """Reads all cells of a table.

    Raises:
        DataError: for a cell that is not a number, with its line and column.
    """
    with reading(str(path), "must be a table in UTF-8"), closing(unpacked(path)) as data:
        text = io.TextIOWrapper(data, "utf-8-sig", newline="")
        return _parse(path, text, options, only_targets)


def _parse(path: Path, text: IO[str], options: TableOptions, only_targets: bool) -> Table:
    rows = _rows(text, options.delimiter or _delimiter(path, text))
    first = next(rows, None)
    if first is None:
        raise DataError(f"{path}: must have lines, but is empty.")
    second = next(rows, None)
    names, classes, is_header = _header(first[1], second[1] if second else None, options.header)
    ahead = [r for r in (None if is_header else first, second) if r is not None]
    label = None if options.label == "none" else _column(path, names, options.label, "label_column")
    out = {_column(path, names, c, "leave_out") for c in options.leave_out}
    inputs = [k for k in range(len(names)) if k != label and k not in out]
    if not inputs and not only_targets:
        raise DataError(f"{path}: must have a column beside the target, but has {len(names)}.")
    table = Table([names[k] for k in inputs], np.empty(0), [], {names[k]: [] for k in sorted(out)})
    roles: dict[int | None, str] = {label: "target", **dict.fromkeys(out, "left out")}
    table.columns = [{"name": n, "role": roles.get(k, "input")} for k, n in enumerate(names)]
    table.has_header = is_header and not classes
    with tempfile.TemporaryFile() as numbers:
        count = 0
        for line, cells in _chain(ahead, rows):
            if len(cells) != len(names):
                if options.skip:
                    table.left_out += 1
                    continue
                raise DataError(
                    f"{path}: line {line}: must have {len(names)} cells, but has {len(cells)}."
                )
            values = [_number(path, line, names[k], cells[k]) for k in inputs]
            missing = label is not None and cells[label].strip().lower() in MISSING
            if missing and not options.drop:
                raise DataError(
                    f'{path}: line {line}: the target is missing. Give `missing="drop"`.'
                )
            if options.drop and (missing or any(map(math.isnan, values))):
                table.left_out += 1
                continue
            numbers.write(np.array(values, np.float64).tobytes())
            if label is not None:
                table.targets.append(cells[label].strip())
            for k in out:
                table.texts[names[k]].append(cells[k])
            count += 1
        if not count:
            raise DataError(f"{path}: must have lines with samples, but has none.")
        numbers.flush()
        if inputs:
            table.values = np.memmap(cast(Any, numbers), np.float64, "r", 0, (count, len(inputs)))
    table.classes = classes
    return table


def _rows(text: IO[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Lines that are not empty, with their numbers."""
    if delimiter == " ":
        for line, content in enumerate(text, 1):
            if cells := content.split():
                yield line, cells
        return
    reader = csv.reader(text, delimiter=delimiter)
    for row in reader:
        if row:
            yield reader.line_num, row


def _delimiter(path: Path, text: IO[str]) -> str:
    """The delimiter: the most frequent candidate in the first line."""
    start = text.readline()
    text.seek(0)
    name = path.name.removesuffix(".gz")
    if name.endswith(".tsv"):
        return "\t"
    best = max(",;\t", key=start.count)
    if start.count(best):
        return best
    return " " if start.split()[1:] else ","


def _counts(first: list[str], second: list[str]) -> bool:
    """Whether the first line has the form `samples,features,class,class,…` and a sample follows."""
    words = len(first) > 2 and not any(_is_number(c) for c in first[2:])
    whole = words and first[0].isdecimal() and first[1].isdecimal()
    return whole and int(first[1]) == len(second) - 1 and all(_is_number(c) for c in second)


def _header(
    first: list[str], second: list[str] | None, asked: bool | None
) -> tuple[list[str], tuple[str, ...], bool]:
    """Returns column names, class names, and whether the first line is a header."""
    if asked is None and second is not None and _counts(first, second):
        return [str(k) for k in range(len(second))], tuple(first[2:]), True
    if asked or (asked is None and _is_header(first, second)):
        return [name.strip() for name in first], (), True
    return [str(k) for k in range(len(first))], (), False


def _is_header(first: list[str], second: list[str] | None) -> bool:
    """Whether the first line is a header: words above numbers."""
    if second is None:
        return False
    above = [_is_number(c) for c in first]
    below = [_is_number(c) for c in second]
    return any(b and not a for a, b in zip(above, below, strict=False))


def _is_number(cell: str) -> bool:
    if cell.strip().lower() in MISSING:
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _chain(
    ahead: list[tuple[int, list[str]]], rows: Iterator[tuple[int, list[str]]]
) -> Iterator[tuple[int, list[str]]]:
    yield from ahead
    yield from rows


def _column(path: Path, names: list[str], wanted: str, field: str) -> int:
    if wanted in names:
        return names.index(wanted)
    try:
        k = int(wanted)
    except ValueError:
        k = len(names)
    if not -len(names) <= k < len(names):
        raise DataError(
            f"{path}: `{field}=` must be one of {listed(names)}, or a number from 0 to "
            f"{len(names) - 1}, but got {wanted}."
        )
    return k % len(names)


def _number(path: Path, line: int, name: str, cell: str) -> float:
    if cell.strip().lower() in MISSING:
        return float("nan")
    try:
        return float(cell)
    except ValueError:
        raise DataError(
            f"{path}: line {line}: column {printable(name)} must hold numbers, but got "
            f"'{printable(cell)}'. Leave it out with "
            f'`leave_out="{printable(name)}"`.'
        ) from None


def _targets(
    path: Path, cells: list[str], names: tuple[str, ...], regression: bool | None
) -> tuple[Array, tuple[str, ...]]:
    """Class numbers and class names; or values, without names."""
    numeric = all(_is_number(c) for c in cells)
    values = np.array([float(c) for c in cells]) if numeric else None
    if regression is None:
        regression = values is not None and bool((values != np.rint(values)).any())
    if regression:
        if values is None:
            raise DataError(f"{path}: a target for regression must be a number, but is a word.")
        if not (np.abs(values) <= np.finfo(np.float32).max).all():
            raise DataError(f"{path}: a target for regression must be finite in float32.")
        return values.astype(np.float32), ()
    if values is not None and (values != np.rint(values)).any():
        raise DataError(f"{path}: a class must be a whole number or a word.")
    if values is not None and (np.abs(values) < EXACT).all():
        whole = values.astype(np.int64)
        if names and whole.min() >= 0 and whole.max() < len(names):
            return whole.astype(np.int32), names
        found, labels = np.unique(whole, return_inverse=True)
    else:  # words, or numbers of which float64 cannot tell two apart
        found, labels = np.unique(np.asarray(cells), return_inverse=True)
    if len(found) > MOST_CLASSES or (values is not None and 2 * len(found) > max(40, len(cells))):
        raise DataError(
            f"{path}: the target has {len(found)} different values in {len(cells)} lines, too many "
            "for classes. Give `regression=True` if it is a number to predict."
        )
    return labels.astype(np.int32), tuple(str(f) for f in found)
