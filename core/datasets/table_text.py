"""The text of tables: delimiters, header lines, numbers, names of columns.

Lines count from 1, as editors count them; columns count from 0, as NumPy and pandas count them.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from odt.core.storage.reading import listed, printable
from odt.errors import DataError

MISSING = frozenset(["", "?", "na", "n/a", "nan", "null", "none"])
DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+(?:[eE][+-]?\d+)?\s*")
RANGE = re.compile(r"(\d+)-(\d+)")

Row = tuple[int, list[str]]  # number of the line, and its cells


def rows_of(text: IO[str], delimiter: str) -> Iterator[Row]:
    """Lines that are not empty. Decimal commas become points, unless commas are delimiters."""
    if delimiter == " ":
        lines: Iterator[Row] = ((n, content.split()) for n, content in enumerate(text, 1))
    else:
        reader = csv.reader(text, delimiter=delimiter)
        lines = ((reader.line_num, cells) for cells in reader)
    for number, cells in lines:
        if cells:
            yield number, cells if delimiter == "," else [with_point(c) for c in cells]


def with_point(cell: str) -> str:
    """A number with a decimal point in place of a comma."""
    return cell.replace(",", ".") if DECIMAL_COMMA.fullmatch(cell) else cell


def find_delimiter(path: Path, text: IO[str]) -> str:
    """The delimiter: the most frequent candidate in the first line, without decimal commas."""
    start = text.readline()
    text.seek(0)
    name = path.name.removesuffix(".gz")
    if name.endswith(".tsv"):
        return "\t"
    if ";" in start or "\t" in start:
        start = re.sub(r"(?<=\d),(?=\d)", ".", start)
    best = max(",;\t", key=start.count)
    if start.count(best):
        return best
    return " " if start.split()[1:] else ","


def find_header(
    first: list[str], second: list[str] | None, asked: bool | None
) -> tuple[list[str], tuple[str, ...], bool]:
    """Returns column names, class names, and whether the first line is a header."""
    if asked is None and second is not None and _counts(first, second):
        return [str(k) for k in range(len(second))], tuple(first[2:]), True
    if asked or (asked is None and _is_header(first, second)):
        return [name.strip() for name in first], (), True
    return [str(k) for k in range(len(first))], (), False


def _counts(first: list[str], second: list[str]) -> bool:
    """Whether the first line has the form `samples,features,class,class,…` and a sample follows."""
    words = len(first) > 2 and not any(is_number(c) for c in first[2:])
    whole = words and first[0].isdecimal() and first[1].isdecimal()
    return whole and int(first[1]) == len(second) - 1 and all(is_number(c) for c in second)


def _is_header(first: list[str], second: list[str] | None) -> bool:
    """Whether the first line is a header: it has words where the second line has numbers."""
    if second is None:
        return False
    above = [is_number(c) for c in first]
    below = [is_number(c) for c in second]
    return any(b and not a for a, b in zip(above, below, strict=False))


def is_missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING


def is_number(cell: str) -> bool:
    """Whether a cell is a number or missing."""
    if is_missing(cell):
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return True


def number_of(path: Path, line: int, name: str, cell: str) -> float:
    """The number in a cell; NaN if it is missing.

    Raises:
        DataError: if the cell is a word.
    """
    if is_missing(cell):
        return float("nan")
    try:
        return float(cell)
    except ValueError:
        shown = printable(name)
        raise DataError(
            f"{path}: line {line}: column {shown} must hold numbers, but got '{printable(cell)}'. "
            f'Leave it out with `leave_out="{shown}"`, or encode its words with '
            f'`one_hot="{shown}"`. (Lines count from 1, columns from 0.)'
        ) from None


def find_columns(path: Path, names: Sequence[str], wanted: str, field: str) -> list[int]:
    """Positions of columns: a name, a number, a range such as 20-29, or several with commas.

    Numbers count from 0, negative ones from the end.

    Raises:
        DataError: if there is no such column.
    """
    if wanted in names:
        return [names.index(wanted)]
    if "," in wanted:
        parts = [find_columns(path, names, part.strip(), field) for part in wanted.split(",")]
        return [k for part in parts for k in part]
    span = RANGE.fullmatch(wanted)
    try:
        first, last = map(int, span.groups()) if span else (int(wanted),) * 2
    except ValueError:
        first, last = 1, 0
    if not (first <= last and -len(names) <= first and last < len(names)):
        raise DataError(
            f"{path}: `{field}=` must be one of {listed(names)}, a number from 0 to "
            f"{len(names) - 1} or a range such as 0-{len(names) - 1}, but got {wanted}."
        )
    return [k % len(names) for k in range(first, last + 1)]
