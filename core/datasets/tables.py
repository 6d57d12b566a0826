"""Reads tables of text: CSV, TSV, or columns separated by spaces, optionally gzipped.

The numbers of a table go to an unnamed temporary file, so that a table may be larger than memory.
"""

import dataclasses
import io
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import field
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np

from odt.core.datasets.table_text import (
    Row,
    find_columns,
    find_delimiter,
    find_header,
    is_missing,
    number_of,
    rows_of,
)
from odt.core.datasets.tree import unpacked
from odt.core.storage.reading import listed, printable, reading
from odt.dataclass import dataclass
from odt.errors import DataError
from odt.kernels.opdef import Array

MOST_WORDS = 1000  # of a column that is encoded as one-hot
INPUT, TARGET, LEFT_OUT = "input", "target", "left out"  # roles of columns


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Options for reading a table. Several columns are given with commas, or as a range 20-29.

    Attributes:
        label: names or numbers of the target's columns, from 0, negative from the end; "none" if
            samples have no targets.
        header: whether the first line holds column names; None to detect that.
        delimiter: "" to detect it; " " for any number of spaces.
        leave_out: names or numbers of columns that are not inputs.
        one_hot: names or numbers of columns of words, which are encoded as one-hot.
        regression: whether the target is a value; None if numbers that are not integers are values.
        drop: whether to leave out lines with missing values.
        skip: leave out lines that cannot be used.
        window, stride, horizon: rows of a sample, rows from one sample to the next, and rows from
            the last one to the row with the target; window 0 for samples of one row.
        series: column that names the series of a row, which no window leaves.
        like: a record's table, whose columns are taken; empty to choose by the options.
        classes: class names of the record.
    """

    label: str = "-1"
    header: bool | None = None
    delimiter: str = ""
    leave_out: tuple[str, ...] = ()
    one_hot: tuple[str, ...] = ()
    regression: bool | None = None
    drop: bool = False
    skip: bool = False
    window: int = 0
    stride: int = 1
    horizon: int = 0
    series: str = ""
    like: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """What the columns of a table are.

    Attributes:
        inputs, labels, out: positions of inputs, targets and other columns.
        words: position of a column of words → word → number; grows if the words are not known.
        is_known: whether the words are known.
    """

    inputs: Sequence[int]
    labels: Sequence[int]
    out: Sequence[int]
    words: Mapping[int, dict[str, int]]
    is_known: bool = False


@dataclasses.dataclass(slots=True)
class Table:
    """Numbers read from text.

    Attributes:
        names: names of all columns.
        layout: what the columns are.
        has_header: whether the first line holds the names.
        classes: class names in the first line, as in scikit-learn's files.
        values: mapped array (rows, inputs) of float64; a word is its number, NaN is missing.
        targets: cells of the target columns of each row.
        texts: name → cells of columns that are not inputs, for groups.
        left_out: number of lines left out.
    """

    names: list[str]
    layout: Layout
    has_header: bool
    classes: tuple[str, ...] = ()
    values: Array = field(default_factory=lambda: np.empty((0, 0)))
    targets: list[list[str]] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=dict)
    left_out: int = 0

    def describe(self) -> dict[str, Any]:
        """Columns in the order of the file, for the preprocessing record."""
        layout = self.layout
        role = dict.fromkeys(layout.out, LEFT_OUT) | dict.fromkeys(layout.labels, TARGET)
        columns: list[dict[str, Any]] = []
        for k, name in enumerate(self.names):
            columns.append({"name": name, "role": role.get(k, INPUT)})
            if k in layout.words:
                columns[-1]["words"] = sorted(layout.words[k])
        order = [self.names[k] for k in layout.inputs]
        return {"header": self.has_header, "columns": columns, "inputs": order}


def read_table(path: Path, options: TableOptions, only_targets: bool = False) -> Table:
    """Reads all cells of a table.

    Raises:
        DataError: for a cell that cannot be used, with its line and column.
    """
    with reading(str(path), "must be a table in UTF-8"), closing(unpacked(path)) as data:
        text = io.TextIOWrapper(data, "utf-8-sig", newline="")
        rows = rows_of(text, options.delimiter or find_delimiter(path, text))
        return parse_table(path, rows, options, only_targets)


def parse_table(
    path: Path, rows: Iterator[Row], options: TableOptions, only_targets: bool = False
) -> Table:
    """Reads a table from its rows; arguments and errors as of `read_table`."""
    first = next(rows, None)
    if first is None:
        raise DataError(f"{path}: must have lines, but is empty.")
    second = next(rows, None)
    named = _has_names(options.like, first[1])
    asked = True if named else options.header
    names, classes, is_header = find_header(first[1], second[1] if second else None, asked)
    table = Table(names, _layout(path, names, options, is_header), is_header, classes)
    table.has_header = is_header and not classes
    if not table.layout.inputs and not only_targets:
        raise DataError(f"{path}: must have a column beside the target, but has {len(names)}.")
    ahead = [r for r in (None if is_header else first, second) if r is not None]
    _read_rows(path, chain(ahead, rows), table, options)
    return table


def _read_rows(path: Path, rows: Iterator[Row], table: Table, options: TableOptions) -> None:
    layout, names = table.layout, table.names
    table.texts = {names[k]: [] for k in layout.out}
    count = 0
    with tempfile.TemporaryFile() as numbers:
        for line, cells in rows:
            if len(cells) != len(names):
                if options.skip:
                    table.left_out += 1
                    continue
                raise DataError(
                    f"{path}: line {line}: must have {len(names)} cells, but has {len(cells)}."
                )
            values = [_value(path, line, names[k], cells[k], layout, k) for k in layout.inputs]
            missing = any(is_missing(cells[k]) for k in layout.labels)
            if missing and not options.drop:
                raise DataError(
                    f'{path}: line {line}: the target is missing. Give `missing="drop"`.'
                )
            if options.drop and (missing or any(map(math.isnan, values))):
                table.left_out += 1
                continue
            numbers.write(np.array(values, np.float64).tobytes())
            if layout.labels:
                table.targets.append([cells[k].strip() for k in layout.labels])
            for k in layout.out:
                table.texts[names[k]].append(cells[k])
            count += 1
        if not count:
            raise DataError(f"{path}: must have lines with samples, but has none.")
        numbers.flush()
        if layout.inputs:
            shape = (count, len(layout.inputs))
            table.values = np.memmap(cast(Any, numbers), np.float64, "r", 0, shape)
        else:
            table.values = np.empty((count, 0))


def _value(path: Path, line: int, name: str, cell: str, layout: Layout, k: int) -> float:
    words = layout.words.get(k)
    if words is None:
        return number_of(path, line, name, cell)
    word = cell.strip()
    if is_missing(word):
        return math.nan
    if word not in words and layout.is_known:
        raise DataError(
            f"{path}: line {line}: column {printable(name)} must hold one of "
            f"{listed(sorted(words))}, the words of the training data, but got '{printable(word)}'."
        )
    if len(words) > MOST_WORDS:
        raise DataError(
            f"{path}: column {printable(name)} must hold at most {MOST_WORDS} different words to "
            f'be encoded as one-hot, but has more. Leave it out with `leave_out="{name}"`.'
        )
    return words.setdefault(word, len(words))


def _layout(path: Path, names: list[str], options: TableOptions, is_header: bool) -> Layout:
    if options.like:
        return _layout_like(path, names, options.like, is_header)
    labels: list[int] = []
    if options.label != "none":
        labels = find_columns(path, names, options.label, "label_column")
    out = sorted({k for c in options.leave_out for k in find_columns(path, names, c, "leave_out")})
    words = {k for c in options.one_hot for k in find_columns(path, names, c, "one_hot")}
    with_target = labels if not options.horizon else []
    inputs = [k for k in range(len(names)) if k not in with_target and k not in out]
    return Layout(inputs, labels, out, {k: {} for k in sorted(words & {*inputs})})


def _has_names(like: Mapping[str, Any], first: list[str]) -> bool:
    """Whether the first line holds the names of a record's inputs."""
    return bool(like) and bool(like["header"]) and {*like["inputs"]} <= {c.strip() for c in first}


def _layout_like(path: Path, names: list[str], like: Mapping[str, Any], is_header: bool) -> Layout:
    """The columns of a record: by name, or by position in a table without names."""
    columns = [c["name"] for c in like["columns"]]
    wanted = list(like["inputs"])
    role = {c["name"]: c["role"] for c in like["columns"]}
    if not (is_header and like["header"]):
        whole = len(names) == len(columns)
        if not whole and len(names) != len(wanted):
            raise DataError(
                f"{path}: must have the {len(columns)} columns of the training data, or its "
                f"{len(wanted)} inputs, but has {len(names)}."
            )
        found = columns if whole else wanted
    else:
        found = names
    lacking = [name for name in wanted if name not in found]
    if lacking:
        raise DataError(
            f"{path}: must have the columns of the training data, but lacks {listed(lacking)}."
        )
    inputs = [found.index(name) for name in wanted]
    labels = [found.index(n) for n in columns if role[n] == TARGET and n in found]
    targets = sum(role[n] == TARGET for n in columns)
    labels = labels if len(labels) == targets else []
    out = [found.index(n) for n in columns if role[n] == LEFT_OUT and n in found]
    words = {
        found.index(c["name"]): {word: k for k, word in enumerate(c["words"])}
        for c in like["columns"]
        if "words" in c
    }
    return Layout(inputs, labels, out, words, is_known=True)
