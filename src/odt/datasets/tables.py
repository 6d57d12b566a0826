"""Reads tables of text: CSV, TSV, or columns separated by spaces, optionally compressed.

The numbers of a table go to an unnamed temporary file, so that a table may be larger than memory.
"""

import dataclasses
import math
import re
import tempfile
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import field
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast

import numpy as np

from odt.core.storage.reading import listed, printable, reading
from odt.dataclass import dataclass
from odt.datasets.class_folders import SPLITS as FOLDERS
from odt.datasets.table_cells import (
    COMMA,
    PLAIN,
    BooleanCells,
    Cells,
    NumberCells,
    VectorCells,
    WordCells,
    find_cells,
    find_dates,
    has_thousands,
    is_missing,
    is_number,
    recorded_cells,
)
from odt.datasets.table_text import (
    ANSI,
    SPELLED,
    Row,
    as_text,
    find_columns,
    find_delimiter,
    find_header,
    rows_of,
    with_head,
)
from odt.datasets.tree import unpacked
from odt.errors import DataError
from odt.kernels.rows.opdef import Array
from odt.text import quantity

MAX_TITLES = 10  # lines above a table
HEAD = 1000  # rows from which the kinds of the columns are found
MAX_WORDS = 1000  # of a column that is encoded as one-hot
USUAL_WORDS = 50  # of a column for which one-hot is proposed
MAX_SHARED = 10_000  # texts of cells that are no inputs
MAX_FEW = 5  # words that may be most of the cells of a small table
LISTED_LINES = 5  # lines that are named
INPUT, TARGET, LEFT_OUT, SPLIT = "input", "target", "left out", "split"  # roles of columns
# Names of columns that name the split of a row, whatever their words.
SPLIT_NAMES = frozenset([
    "usage", "split", "set", "subset", "partition", "fold", "dataset", "data_split", "phase",
])  # fmt: skip
# Word in a column of splits → name of the split; FER-2013 has the last two.
SPLITS = {
    **FOLDERS,
    "dev": "validation",
    "publictest": "validation",
    "privatetest": "test",
}
PART = "(split)"  # column of the split in a folder of tables
# A number with a separator of thousands, a unit, or a space between digits.
UNUSUAL = re.compile(r"[.,]\d{3}(?!\d)|[^\d.,+\-eE\s]|\d\s\d")
UNNAMED = re.compile(r"(Unnamed: \d+)?(\.\d+)?")  # pandas' and R's column of row numbers
# Names of columns that may number the rows, which a warning is about.
COUNTS = frozenset(["id", "index", "idx", "row", "no", "nr", "number", "rownames", "unnamed"])


class TextColumnsError(DataError):
    """Columns of text that must be encoded or left out.

    Attributes:
        options: name of a column → the option that fits its text: one_hot, date or leave_out.
    """

    def __init__(self, message: str, options: Mapping[str, str]) -> None:
        super().__init__(message)
        self.options = dict(options)


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
        dates: names or numbers of columns of dates, with = and their format if it is not clear.
        regression: whether the target is a value; None if numbers that are not integers are values.
        drop: whether to leave out lines with missing values.
        drop_targets: whether to leave out lines whose target is missing.
        skip: whether to leave out lines that cannot be used.
        window, stride, horizon: rows of a sample, rows from one sample to the next, and rows from
            the last one to the row with the target; window 0 for samples of one row.
        series: column that names the series of a row, which no window leaves.
        groups: column of groups, which is no input; empty for none.
        inputs_only: whether to ignore the target columns of a record.
        spaces: whether columns may be separated by spaces.
        like: a record's table, whose columns are taken; empty to choose by the options.
        classes: class names of the record.
    """

    label: str = "-1"
    header: bool | None = None
    delimiter: str = ""
    leave_out: tuple[str, ...] = ()
    one_hot: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    regression: bool | None = None
    drop: bool = False
    drop_targets: bool = False
    skip: bool = False
    window: int = 0
    stride: int = 1
    horizon: int = 0
    series: str = ""
    groups: str = ""
    inputs_only: bool = False
    spaces: bool = False
    like: Mapping[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """What the columns of a table are.

    Attributes:
        inputs, labels, out: positions of inputs, targets and other columns.
        cells: what the columns of inputs hold, by position.
        targets: what the target columns hold, if they are numbers.
        split: position of the column that names the split of a row; -1 for none.
        is_known: whether the columns are those of a record.
    """

    inputs: Sequence[int]
    labels: Sequence[int]
    out: Sequence[int]
    cells: Mapping[int, Cells]
    targets: Mapping[int, Cells] = field(default_factory=dict)
    split: int = -1
    is_known: bool = False


@dataclasses.dataclass(slots=True)
class Table:
    """Numbers read from text.

    Attributes:
        names: names of all columns.
        layout: what the columns are.
        has_header: whether the first line holds the names.
        classes: class names in the first line, as in scikit-learn's files.
        values: mapped array (rows, numbers) of float64; a word is its number, NaN is missing.
        targets: cells of the target columns of each row, until they are read.
        texts: name → cells of columns that are not inputs, for groups.
        splits: name of the split of each row; empty without such a column.
        lines: number of the line of each row.
        where: number of a line → its name in messages.
        left_out: reason → lines that were left out.
        notes: lines for the user.
    """

    names: list[str]
    layout: Layout
    has_header: bool
    classes: tuple[str, ...] = ()
    values: Array = field(default_factory=lambda: np.empty((0, 0)))
    targets: list[tuple[str, ...]] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=dict)
    splits: list[str] = field(default_factory=list)
    lines: "array[int]" = field(default_factory=lambda: array("q"))
    where: Callable[[int], str] = "line {}".format
    left_out: dict[str, list[int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def describe(self) -> dict[str, Any]:
        """Returns the columns in the order of the file, for the preprocessing record."""
        layout = self.layout
        role = dict.fromkeys(layout.out, LEFT_OUT) | dict.fromkeys(layout.labels, TARGET)
        role |= {layout.split: SPLIT}
        columns: list[dict[str, Any]] = []
        for k, name in enumerate(self.names):
            columns.append({"name": name, "role": role.get(k, INPUT)})
            cells = layout.cells.get(k) or layout.targets.get(k)
            columns[-1] |= cells.describe() if cells else {}
        order = [self.names[k] for k in layout.inputs]
        return {"header": self.has_header, "columns": columns, "inputs": order}


def read_table(path: Path, options: TableOptions, only_targets: bool = False) -> Table:
    """Reads all cells of a table.

    Args:
        path: the table, optionally compressed.
        options: options for reading it.
        only_targets: whether the target may be the only column.

    Raises:
        DataError: if the table is empty or has no such columns, or for cells that cannot be used,
            with their lines and columns.
    """
    with reading(str(path), "must be a table of text"), closing(unpacked(path)) as data:
        text = as_text(data)
        delimiter = SPELLED.get(options.delimiter, options.delimiter)
        if len(delimiter) > 1:
            raise DataError(f"{path}: `delimiter=` must be one character, but got {delimiter}.")
        delimiter = delimiter or find_delimiter(text, spaces=options.spaces)
        if delimiter == " " and any("numbers" in c for c in options.like.get("columns", ())):
            delimiter = ","  # the spaces are those between the numbers of a cell
        rows = rows_of(text, delimiter)
        table = parse_table(path, rows, options, only_targets, delimiter=delimiter)
        if text.encoding == ANSI:
            table.notes.insert(0, f"note: {path}: is not in UTF-8; it is read as Windows-1252.")
        return table


def parse_table(
    path: Path,
    rows: Iterator[Row],
    options: TableOptions,
    only_targets: bool = False,
    *,
    delimiter: str = ",",
    where: Callable[[int], str] = "line {}".format,
) -> Table:
    """Reads a table from its rows; errors as of `read_table`.

    Args:
        path: the table, for messages.
        rows: its rows, of which the first may hold names.
        options, only_targets: as of `read_table`.
        delimiter: delimiter of its cells.
        where: number of a line → its name in messages.
    """
    first = next(rows, None)
    if first is None:
        raise DataError(f"{path}: must have lines, but is empty.")
    head, rows = with_head(rows, HEAD)
    first, head, rows, titles = _without_titles(first, head, rows)
    has_header = True if _has_names(options.like, first[1]) else options.header
    names, classes, is_header = find_header(first[1], [cells for _, cells in head], has_header)
    if not head and not is_header and not any(map(is_number, first[1])):
        raise DataError(f"{path}: must have lines below the names of its columns, but has none.")
    if not is_header:
        head = [first, *head]
        rows = chain([first], rows)
    rows_of_head = [_cut(cells, len(names)) for _, cells in head]
    whole_rows = [cells for cells in rows_of_head if len(cells) == len(names)]
    has_names = is_header and not classes
    table = Table(names, Layout((), (), (), {}), has_names, classes, where=where)
    if titles:
        table.notes.append(f"note: {path}: lines above the table are left out: {titles}.")
    if options.like:
        table.layout = _layout_like(path, names, options, is_header)
    else:
        table.layout = _layout(path, table, options, whole_rows, delimiter)
    if not table.layout.inputs and not only_targets:
        raise DataError(f"{path}: must have a column beside the target, but has {len(names)}.")
    _read_rows(path, rows, table, options)
    return table


def _without_titles(
    first: Row, head: list[Row], rows: Iterator[Row]
) -> tuple[Row, list[Row], Iterator[Row], int]:
    """Returns the table without lines of one cell above it, such as titles, and their number."""
    titles = 0
    filled = [sum(map(bool, map(str.strip, cells))) for _, cells in (first, *head[:MAX_TITLES])]
    if max(filled) > 2 and filled[0] < 2:
        titles = next(k for k, count in enumerate(filled) if count > 2)
        above = [cell for _, cells in (first, *head[: titles - 1]) for cell in cells]
        values = any(cell.strip() and is_number(cell) for cell in above)
        if values or any(count > 1 for count in filled[:titles]):
            return first, head, rows, 0
        first = head[titles - 1]
        head = head[titles:]
        rows = islice(rows, titles, None)
    return first, head, rows, titles


def _cut(cells: list[str], count: int) -> list[str]:
    """Returns a row without empty cells beyond the columns, which trailing delimiters make."""
    while len(cells) > count and not cells[-1].strip():
        cells = cells[:-1]
    return cells


def _read_rows(path: Path, rows: Iterator[Row], table: Table, options: TableOptions) -> None:
    """Reads all rows into the table; raises DataError for all faults together."""
    layout = table.layout
    names = table.names
    table.texts = {names[k]: [] for k in layout.out}
    width = sum(layout.cells[k].width for k in layout.inputs)
    faults = _Faults(path, table)
    words: dict[str, str] = {}
    plain = layout.split < 0 and all(layout.cells[k] == NumberCells() for k in layout.inputs)
    with tempfile.TemporaryFile() as numbers:
        for line, row in rows:
            cells = _cut(row, len(names))
            if not any(map(str.strip, cells)):
                continue  # an empty line, as spreadsheets write them at the end
            if len(cells) != len(names):
                faults.uneven(line, len(cells), skip=options.skip)
                continue
            values, bad = _values(cells, layout, plain=plain)
            if bad:
                faults.unfit(line, cells, bad, skip=options.skip)
                continue
            if _is_incomplete(line, cells, values, table, options, faults):
                continue
            if not faults:
                numbers.write(np.array(values, np.float64).tobytes())
            _keep(line, cells, table, words)
        faults.report()
        count = len(table.lines)
        if not count:
            left_out = sum(map(len, table.left_out.values()))
            note = f": {left_out} are left out" if left_out else ""
            raise DataError(f"{path}: must have lines with samples, but has none{note}.")
        numbers.flush()
        if width:
            table.values = np.memmap(cast(Any, numbers), np.float64, "r", 0, (count, width))
        else:
            table.values = np.empty((count, 0))
    table.notes += _notes(path, table)


def _is_incomplete(
    line: int,
    cells: list[str],
    values: list[float],
    table: Table,
    options: TableOptions,
    faults: "_Faults",
) -> bool:
    """Whether a line lacks a value or the target; notes such a line as left out or as a fault."""
    missing = any(is_missing(cells[k]) for k in table.layout.labels)
    if missing and not (options.drop or options.drop_targets):
        cell = next(cells[k] for k in table.layout.labels if is_missing(cells[k]))
        faults.no_target(line, cell)
        return True
    if missing or (options.drop and any(map(math.isnan, values))):
        reason = "a missing target" if missing else "a missing value"
        table.left_out.setdefault(reason, []).append(line)
        return True
    return False


def _keep(line: int, cells: list[str], table: Table, words: dict[str, str]) -> None:
    """Keeps the cells of a line that are no inputs.

    Args:
        line: number of the line.
        cells: its cells.
        table: what has been read.
        words: the first equal text of each cell, so that classes and groups have one text each.
    """
    layout = table.layout
    if layout.split >= 0:
        table.splits.append(SPLITS[cells[layout.split].strip().lower()])
    if layout.labels:
        row = [_target(cells[k], layout.targets.get(k)) for k in layout.labels]
        table.targets.append(tuple(_shared(cell, words) for cell in row))
    for k in layout.out:
        table.texts[table.names[k]].append(_shared(cells[k], words))
    table.lines.append(line)


def _shared(cell: str, words: dict[str, str]) -> str:
    """Returns the text of an equal cell before, of which there are no more than MAX_SHARED."""
    return words.setdefault(cell, cell) if len(words) < MAX_SHARED else words.get(cell, cell)


def _values(cells: list[str], layout: Layout, *, plain: bool) -> tuple[list[float], list[int]]:
    """Returns the numbers of the inputs of a row, and the columns whose cells do not fit.

    Args:
        cells: cells of the row.
        layout: what the columns are.
        plain: whether all inputs are plain numbers, which are read at once.
    """
    if plain:
        with suppress(ValueError):
            return [float(cells[k]) for k in layout.inputs], []
    values: list[float] = []
    bad = []
    for k in layout.inputs:
        try:
            values += layout.cells[k].values(cells[k])
        except ValueError:
            bad.append(k)
    if layout.split >= 0 and cells[layout.split].strip().lower() not in SPLITS:
        bad.append(layout.split)
    return values, bad


def _target(cell: str, cells: Cells | None) -> str:
    """Returns the cell of a target; a number in another style as Python writes it."""
    plain = not isinstance(cells, NumberCells) or cells.style == PLAIN
    if cells is None or plain or is_missing(cell):
        return cell.strip()
    try:
        (number,) = cells.values(cell)
    except ValueError:
        return cell.strip()
    return repr(number)


def plain_numbers(rows: Sequence[Sequence[str]], delimiter: str) -> list[list[str]]:
    """Returns cells of targets (rows, columns); numbers in other styles as Python writes them."""
    columns = []
    for column in zip(*rows, strict=True):
        cells = find_cells(column, delimiter)
        columns.append([_target(cell, cells) for cell in column])
    return [list(row) for row in zip(*columns, strict=True)]


def _notes(path: Path, table: Table) -> Iterator[str]:
    """Yields what was left out, and which words are not known."""
    if table.left_out:
        total = sum(map(len, table.left_out.values()))
        reasons = ", ".join(
            f"{len(n)} with {r} ({_first(table, n)})" for r, n in table.left_out.items()
        )
        yield f"note: {path}: {total} of {total + len(table.lines)} lines left out: {reasons}."
    unknown: dict[str, dict[str, int]] = {}
    for k, cells in table.layout.cells.items():
        if isinstance(cells, WordCells) and cells.unknown:
            unknown[table.names[k]] = cells.unknown
    if unknown:
        total = sum(sum(counts.values()) for counts in unknown.values())
        shown = "; ".join(
            f"column {printable(name)}: {listed([f'{w} ({n})' for w, n in counts.items()])}"
            for name, counts in unknown.items()
        )
        words = "1 word is" if total == 1 else f"{total} words are"
        yield (
            f"note: {path}: {words} not in the training data, unknown: zeros in all columns of the "
            f"word: {shown}."
        )
    if table.splits and table.names[table.layout.split] != PART:
        names = list(dict.fromkeys(table.splits))
        counts = ", ".join(f"{name} {table.splits.count(name)}" for name in names)
        yield (
            f"note: {path}: column {printable(table.names[table.layout.split])} names the splits: "
            f"{counts}."
        )


def _first(table: Table, lines: Sequence[int]) -> str:
    shown = ", ".join(map(table.where, lines[:LISTED_LINES]))
    return shown + (", …" if len(lines) > LISTED_LINES else "")


@dataclasses.dataclass(slots=True)
class _BadCells:
    """Cells of a column that do not fit it.

    Attributes:
        line: number of the first line with such a cell.
        cell: the cell there.
        words: different cells, at most MAX_WORDS + 1.
        count: number of lines.
    """

    line: int
    cell: str
    words: set[str] = field(default_factory=set)
    count: int = 0


class _Faults:
    """Faults of a table, which are reported together."""

    def __init__(self, path: Path, table: Table) -> None:
        self._path = path
        self._table = table
        self._uneven: dict[int, int] = {}
        self._bad: dict[int, _BadCells] = {}  # by column
        self._targets: list[int] = []
        self._words: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._uneven or self._bad or self._targets)

    def uneven(self, line: int, cells: int, *, skip: bool) -> None:
        """Notes a line with another number of cells."""
        if skip:
            self._table.left_out.setdefault("another number of cells", []).append(line)
        else:
            self._uneven[line] = cells

    def unfit(self, line: int, cells: list[str], columns: Sequence[int], *, skip: bool) -> None:
        """Notes a line with cells that do not fit their columns."""
        layout = self._table.layout
        has_text = any(isinstance(layout.cells.get(k), _Text) for k in columns)
        if skip and not has_text:
            self._table.left_out.setdefault("a cell that does not fit", []).append(line)
            return
        for k in columns:
            bad = self._bad.setdefault(k, _BadCells(line, cells[k]))
            bad.count += 1
            if len(bad.words) <= MAX_WORDS:
                bad.words.add(cells[k].strip())

    def no_target(self, line: int, cell: str) -> None:
        """Notes a line without a target; words such as none count as missing."""
        self._targets.append(line)
        self._words.update({cell.strip()} - {""})

    def report(self) -> None:
        """Raises DataError for all faults together."""
        if not self:
            return
        count = len(self._table.names)
        where = self._table.where
        messages = []
        text_columns = [k for k in sorted(self._bad) if isinstance(self._cells(k), _Text)]
        if len(text_columns) > 1:
            messages.append(self._columns_of_text(text_columns))
        for k in sorted(self._bad):
            if k not in text_columns or len(text_columns) == 1:
                messages.append(f"{self._column(k)}.")
        if self._uneven:
            (line, cells), *rest = self._uneven.items()
            others = f", and {len(rest)} more lines have others" if rest else ""
            messages.append(
                f"{where(line)}: must have {count} cells, but has {cells}{others}. Leave such "
                'lines out with `on_error="skip"`.'
            )
        if self._targets:
            others = f" ({len(self._targets)} lines)" if self._targets[1:] else ""
            messages.append(
                f"{where(self._targets[0])}: the target is missing{others}. Leave such lines out "
                f'with `missing_target="drop"`{_or_rename(self._words)}.'
            )
        message = f"{self._path}: {' '.join(messages)}"
        if text_columns:
            raise TextColumnsError(
                message, {self._table.names[k]: self._option(k) for k in text_columns}
            )
        raise DataError(message)

    def _option(self, k: int) -> str:
        """Returns the option that a column of text needs."""
        cells = self._cells(k)
        if isinstance(cells, _Text) and cells.are_dates:
            return "date"
        return "leave_out" if _are_names(self._bad[k]) else "one_hot"

    def _cells(self, k: int) -> Cells | None:
        return self._table.layout.cells.get(k)

    def _column(self, k: int) -> str:
        """Returns the fault of one column."""
        name = printable(self._table.names[k])
        cells = self._cells(k)
        bad = self._bad[k]
        repeats = f" ({bad.count} lines)" if bad.count > 1 else ""
        content = "numbers"
        if k == self._table.layout.split:
            content = f"names of splits, one of {listed(SPLITS)},"
        elif isinstance(cells, BooleanCells):
            content = "yes or no, or 1 or 0,"
        elif isinstance(cells, VectorCells):
            content = f"{cells.width} numbers in each cell"
        shown = printable(bad.cell, 40)
        where = self._table.where(bad.line)
        rule = f"{where}: column {name} must hold {content}, but got '{shown}'{repeats}"
        if not isinstance(cells, _Text):
            return f'{rule}. Correct it, or leave such lines out with `on_error="skip"`'
        if cells.are_dates:
            return f'{rule}. Encode its dates with `date="{name}"`'
        out = f'`leave_out="{name}"`'
        if _are_names(bad):
            return f"{rule}. Leave it out with {out}: it has {_count(bad.words)} different texts"
        return f'{rule}. Leave it out with {out}, or encode its words with `one_hot="{name}"`'

    def _columns_of_text(self, columns: Sequence[int]) -> str:
        """Returns the fault of all columns of text together, with an option for each."""
        shown = []
        options = []
        for k in columns:
            name = printable(self._table.names[k])
            bad = self._bad[k]
            option = self._option(k)
            kind = quantity(len(bad.words), "word")
            if option == "date":
                kind = "dates"
            elif option == "leave_out":
                kind = f"{_count(bad.words)} texts"
            shown.append(f"{name} ({kind}, '{printable(bad.cell, 20)}')")
            options.append(f'`{option}="{name}"`')
        return (
            f"{len(columns)} columns hold text, which must be encoded or left out: "
            f"{', '.join(shown)}. Give, for example, {' '.join(options)}."
        )


def _or_rename(words: set[str]) -> str:
    """Returns what else to do if missing targets are words that may be names of classes."""
    if not words:
        return ""
    return f", or rename the class if {listed(sorted(words))} is one"


def _are_names(bad: _BadCells) -> bool:
    """Whether a column has too many words for one-hot columns."""
    words = len(bad.words)
    return words > USUAL_WORDS or (words > MAX_FEW and 2 * words > bad.count)


def _count(words: set[str]) -> str:
    return f"more than {MAX_WORDS}" if len(words) > MAX_WORDS else str(len(words))


@dataclass(frozen=True, slots=True)
class _Text:
    """A column of text that is not encoded: every cell that is no number is a fault.

    Attributes:
        are_dates: whether the cells are dates.
        width: number of inputs that the column would give.
    """

    are_dates: bool
    width: int = 1

    def values(self, cell: str) -> Sequence[float]:
        return NumberCells().values(cell)

    def names(self, column: str) -> list[str]:
        return [column]

    def describe(self) -> dict[str, Any]:
        return {}


def _layout(
    path: Path, table: Table, options: TableOptions, head: Sequence[list[str]], delimiter: str
) -> Layout:
    """Returns what the columns are, by the options and the first rows; adds notes to the table."""
    names = table.names
    labels: list[int] = []
    if options.label != "none":
        labels = find_columns(path, names, options.label, "label_column")
    groups = (options.groups,) if options.groups else ()
    # With a horizon, the target's earlier values are inputs, too.
    targets_alone = labels if not options.horizon else []
    out = _positions(path, names, options.leave_out, "leave_out", targets_alone)
    out |= _positions(path, names, groups, "group_by")
    words = _positions(path, names, options.one_hot, "one_hot", targets_alone)
    dates = _date_forms(path, names, options.dates)
    if twice := [names[k] for k in words & dates.keys()]:
        raise DataError(
            f"{path}: a column must be words or dates, but `one_hot=` and `date=` both name "
            f"{listed(twice)}."
        )
    columns = [[row[k] for row in head] for k in range(len(names))]
    taken = {*labels, *out, *words, *dates}
    free = (k for k in range(len(names)) if k not in taken)
    split = next((k for k in free if _names_splits(names[k], columns[k])), -1)
    if options.label == "-1" and split < 0 and len(names) > 1:
        # The column of splits, which is often the last one, is no target.
        last = len(names) - 1
        if labels == [last] and _names_splits(names[last], columns[last]):
            raise DataError(
                f"{path}: the last column, {printable(names[last])}, names splits, so that it is "
                "no target. Name the target with `label_column=`."
            )
    for k in range(len(names)):
        if k not in taken and k != split and _numbers_rows(names[k], columns[k]):
            out.add(k)
            table.notes.append(
                f"note: {path}: column {k} has no name and numbers the rows: it is not an input."
            )
    inputs = [k for k in range(len(names)) if k not in (*targets_alone, *out, split)]
    cells: dict[int, Cells] = {}
    for k in inputs:
        if k in words:
            cells[k] = WordCells({}, False, {})
        elif k in dates:
            cells[k] = _dates(path, names[k], columns[k], dates[k])
        else:
            kind = find_cells(columns[k], delimiter)
            cells[k] = kind or cast(Cells, _Text(bool(find_dates(columns[k]))))
    targets: dict[int, Cells] = {}
    for k in labels:
        target = find_cells(columns[k], delimiter)
        if isinstance(target, NumberCells):
            targets[k] = target
    table.notes += _read_thousands(path, names, columns, cells, targets)
    table.notes += [
        f"Warning: {path}: column {printable(names[k])} numbers the rows and is an input. Leave it "
        f'out with `leave_out="{names[k]}"`.'
        for k in inputs
        if names[k].strip().lower() in COUNTS and _counts_up(columns[k])
    ]
    return Layout(inputs, labels, sorted(out), cells, targets, split)


def _positions(
    path: Path,
    names: Sequence[str],
    texts: Sequence[str],
    field: str,
    targets: Sequence[int] = (),
) -> set[int]:
    """Returns the positions of the columns that the texts of an option name.

    Args:
        path: the table, for messages.
        names: names of its columns.
        texts: values of the option.
        field: the option.
        targets: columns on which the option has no effect.

    Raises:
        DataError: if there is no such column, or a text names only such columns.
    """
    positions: set[int] = set()
    for text in texts:
        columns = find_columns(path, names, text, field)
        if {*columns} <= {*targets}:
            raise DataError(
                f"{path}: `{field}=` must name columns of inputs, but got {text}, the target."
            )
        positions |= {*columns}
    return positions


def _date_forms(path: Path, names: Sequence[str], texts: Sequence[str]) -> dict[int, str]:
    """Returns columns of dates → their format; empty for one that is found.

    Args:
        path: the table, for messages.
        names: names of its columns.
        texts: values of the option: columns, with = and a format or without.

    Raises:
        DataError: if there is no such column, or a column has two formats.
    """
    forms: dict[int, str] = {}
    for text in texts:
        column, _, form = text.partition("=")
        for k in find_columns(path, names, column, "date"):
            if forms.setdefault(k, form) != form:
                raise DataError(
                    f"{path}: dates of a column must have one format, but `date=` gives "
                    f"{printable(names[k])} two: {listed([forms[k], form])}."
                )
    return forms


def _dates(path: Path, name: str, column: Sequence[str], form: str) -> Cells:
    """Returns how the dates of a column are read."""
    dates = find_dates(column, form)
    shown = next((c for c in column if not is_missing(c)), "")
    if len(dates) == 1:
        return dates[0]
    if dates:
        options = " or ".join(f'`date="{name}={d.form}"`' for d in dates[:2])
        raise DataError(
            f"{path}: the dates of column {printable(name)}, such as {printable(shown)}, have "
            f"several readings. Give {options}."
        )
    of_form = f" of the form {form}" if form else ""
    text = printable(shown)
    raise DataError(
        f"{path}: column {printable(name)} must hold dates{of_form}, but got '{text}'. Give "
        f'their form, such as `date="{name}=%d.%m.%Y %H:%M"`.'
    )


def _read_thousands(
    path: Path,
    names: Sequence[str],
    columns: Sequence[Sequence[str]],
    cells: dict[int, Cells],
    targets: dict[int, Cells],
) -> Iterator[str]:
    """Reads 1.234 as 1234 in a table with decimal commas; yields notes on unusual numbers."""
    numbers = [c for c in (*cells.values(), *targets.values()) if isinstance(c, NumberCells)]
    if any(c.style == COMMA for c in numbers):
        for group in (cells, targets):
            for k, c in group.items():
                plain = isinstance(c, NumberCells) and c.style == PLAIN
                if plain and has_thousands(columns[k]):
                    group[k] = NumberCells(COMMA)
    shown = []
    for k, c in (cells | targets).items():
        if isinstance(c, NumberCells) and c.style != PLAIN:
            odd = [cell for cell in columns[k] if not is_missing(cell) and UNUSUAL.search(cell)]
            if odd:
                (value,) = c.values(odd[0])
                shown.append(
                    f"'{printable(odd[0])}' as {value:.10g} (column {printable(names[k])})"
                )
    if shown:
        yield f"note: {path}: reads {', '.join(shown[:LISTED_LINES])}."


def _names_splits(name: str, column: Sequence[str]) -> bool:
    """Whether a column names the split of each row."""
    words = {cell.strip().lower() for cell in column if not is_missing(cell)}
    if not words or not words <= SPLITS.keys():
        return False
    parts = {SPLITS[word] for word in words}
    return ("train" in parts and len(parts) > 1) or name.strip().lower() in SPLIT_NAMES


def _numbers_rows(name: str, column: Sequence[str]) -> bool:
    """Whether a column without a name, as pandas and R write it, has a number for each row."""
    return bool(UNNAMED.fullmatch(name)) and _whole(column) and len({*column}) == len(column) > 1


def _counts_up(column: Sequence[str]) -> bool:
    """Whether a column counts the rows."""
    if not _whole(column) or len(column) < 3:
        return False
    first = int(column[0])
    return [int(cell) for cell in column] == [*range(first, first + len(column))]


def _whole(column: Sequence[str]) -> bool:
    return all(cell.strip().isdecimal() for cell in column)


def _has_names(like: Mapping[str, Any], first: list[str]) -> bool:
    """Whether the first line holds the names of a record's inputs."""
    return bool(like) and bool(like["header"]) and {*like["inputs"]} <= {c.strip() for c in first}


def _layout_like(path: Path, names: list[str], options: TableOptions, is_header: bool) -> Layout:
    """Returns the columns of a record: by name, or by position in a table without names."""
    like = options.like
    columns = [c["name"] for c in like["columns"]]
    inputs_before = list(like["inputs"])
    role = {c["name"]: c["role"] for c in like["columns"]}
    if not (is_header and like["header"]):
        whole = len(names) == len(columns)
        if not whole and len(names) != len(inputs_before):
            raise DataError(
                f"{path}: must have the {len(columns)} columns of the training data, or its "
                f"{len(inputs_before)} inputs, but has {len(names)}."
            )
        in_file = columns if whole else inputs_before
    else:
        in_file = names
    lacking = [name for name in inputs_before if name not in in_file]
    if lacking:
        raise DataError(
            f"{path}: must have the columns of the training data, but lacks {listed(lacking)}."
        )
    inputs = [in_file.index(name) for name in inputs_before]
    labels = [in_file.index(n) for n in columns if role[n] == TARGET and n in in_file]
    targets = sum(role[n] == TARGET for n in columns)
    labels = labels if len(labels) == targets and not options.inputs_only else []
    out = [in_file.index(n) for n in columns if role[n] == LEFT_OUT and n in in_file]
    described = [c for c in like["columns"] if c["name"] in in_file]
    cells = {in_file.index(c["name"]): recorded_cells(c) for c in described}
    input_cells = {k: cells[k] for k in inputs}
    target_cells = {k: cells[k] for k in labels}
    return Layout(inputs, labels, out, input_cells, target_cells, is_known=True)
