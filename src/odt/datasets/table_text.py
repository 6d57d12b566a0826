"""The text of tables: encodings, delimiters, header lines, names of columns.

Lines count from 1, as editors count them; columns count from 0, as NumPy and pandas count them.
"""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO

from odt.core.formats.file_kinds import ZIP
from odt.core.storage.reading import listed
from odt.datasets.table_cells import is_number, looks_like_value
from odt.errors import DataError

START = 4096  # bytes of a file that tell UTF-16 and archives
BLOCK = 1 << 20
SAMPLE_LINES = 20  # from which the delimiter is found
MAX_CELL = 1 << 24  # characters of a cell, such as an image in one
DELIMITERS = ",;\t|"
SPELLED = {"\\t": "\t", "tab": "\t", "space": " ", "comma": ",", "semicolon": ";"}
BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
ANSI = "cp1252"  # what Excel writes on Windows, a superset of Latin-1
EXCEL = re.compile(r"sep=(.)")  # a first line that names the delimiter
RANGE = re.compile(r"(\d+)-(\d+)")
TOKEN = re.compile(r'"((?:[^"]|"")*)"|(\S+)')

csv.field_size_limit(MAX_CELL)

Row = tuple[int, list[str]]  # number of the line, and its cells


def find_encoding(data: IO[bytes]) -> str:
    """Returns the encoding of a text: UTF-8, UTF-16, or Windows-1252 if it is neither.

    Raises:
        ValueError: for bytes that are no text.
    """
    data.seek(0)
    start = data.read(START)
    for bom, name in BOMS.items():
        if start.startswith(bom):
            return name
    if start.startswith(ZIP):
        raise ValueError("a ZIP archive, such as a spreadsheet in .xlsx")
    if b"\0" in start:
        odd = start[1::2].count(0)
        even = start[::2].count(0)
        if min(odd, even) or 2 * max(odd, even) < len(start) // 2:
            raise ValueError("bytes that are no text")
        return "utf-16-le" if odd else "utf-16-be"
    data.seek(0)
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while block := data.read(BLOCK):
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return ANSI
    return "utf-8"


def as_text(data: IO[bytes]) -> io.TextIOWrapper:
    """Decodes a text file.

    Raises:
        ValueError: for bytes that are no text.
    """
    encoding = find_encoding(data)
    data.seek(0)
    return io.TextIOWrapper(data, encoding, newline="")


def rows_of(text: IO[str], delimiter: str) -> Iterator[Row]:
    """Yields lines with their cells; empty lines are passed over.

    A line that ends with `;` where commas are delimiters ends a record, as in WISDM's files.
    """
    start = text.readline()
    skipped = 1 if EXCEL.fullmatch(start.strip()) else 0
    if not skipped:
        text.seek(0)
    if delimiter == " ":
        for number, line in enumerate(text, 1 + skipped):
            if cells := [quoted or plain for quoted, plain in TOKEN.findall(line)]:
                yield number, cells
    elif delimiter == "," and start.rstrip().endswith(";"):
        for number, line in enumerate(text, 1):
            for record in filter(str.strip, line.split(";")):
                yield number, next(csv.reader([record.strip()]))
    else:
        reader = csv.reader(text, delimiter=delimiter, skipinitialspace=True)
        for cells in reader:
            if cells:
                yield reader.line_num + skipped, cells


def find_delimiter(text: IO[str], *, spaces: bool = False) -> str:
    """Returns the delimiter that cuts most lines into the same number of cells, at least two.

    Args:
        text: the table, which is read from its beginning.
        spaces: whether spaces come before commas, for numbers with decimal commas.
    """
    text.seek(0)
    lines = [line.rstrip("\r\n") for line in islice(filter(str.strip, text), SAMPLE_LINES)]
    text.seek(0)
    if lines and (named := EXCEL.fullmatch(lines[0].strip())):
        return named[1]
    bare = [line.rstrip().rstrip(";") for line in lines]
    if any(d in line for line in bare for d in ";\t|"):
        bare = [re.sub(r"(?<=\d),(?=\d)", ".", line) for line in bare]
    scores = {d: _score([next(csv.reader([line], delimiter=d), []) for line in bare])
              for d in DELIMITERS}  # fmt: skip
    best = max(DELIMITERS, key=lambda d: scores[d])
    tokens = [line.split() for line in lines]
    if spaces and best == "," and len(tokens[:1]) and _score(tokens)[0]:
        numbers = [looks_like_value(cell) for row in tokens for cell in row]
        if sum(numbers) > len(numbers) / 2 and not any(c.endswith(",") for r in tokens for c in r):
            return " "
    if scores[best][0]:
        return best
    return " " if tokens and tokens[0][1:] else ","


def _score(rows: Sequence[Sequence[str]]) -> tuple[bool, float, int]:
    """Whether rows have several cells, the share of the usual number of cells, and the number."""
    if not rows:
        return False, 0, 0
    ((usual, count),) = Counter(map(len, rows)).most_common(1)
    return usual > 1, round(count / len(rows), 1), usual


def find_header(
    first: list[str], head: Sequence[list[str]], has_header: bool | None
) -> tuple[list[str], tuple[str, ...], bool]:
    """Returns column names, class names, and whether the first line is a header.

    Args:
        first: cells of the first line.
        head: cells of the lines after it.
        has_header: whether the first line is a header; None to detect that.
    """
    second = head[0] if head else None
    if has_header is None and second is not None and _counts(first, second):
        return [str(k) for k in range(len(second))], tuple(first[2:]), True
    if has_header or (has_header is None and _is_header(first, head)):
        return distinct_names(_without_end(first, head)), (), True
    return [str(k) for k in range(len(_without_end(first, head)))], (), False


def _without_end(first: list[str], head: Sequence[list[str]]) -> list[str]:
    """Returns the cells of the first line without last ones that are empty, as those below them."""
    names = list(first)
    while names and not names[-1].strip():
        if any(len(row) >= len(names) and row[len(names) - 1].strip() for row in head):
            break
        names.pop()
    return names


def distinct_names(names: Sequence[str]) -> list[str]:
    """Returns names without blanks around them, repeated ones with a number, as in pandas."""
    distinct: list[str] = []
    for name in map(str.strip, names):
        number = 0
        new = name
        while new in distinct:
            number += 1
            new = f"{name}.{number}"
        distinct.append(new)
    return distinct


def _counts(first: list[str], second: list[str]) -> bool:
    """Whether the first line has the form `samples,features,class,class,…` and a sample follows."""
    words = len(first) > 2 and not any(is_number(c) for c in first[2:])
    whole = words and first[0].isdecimal() and first[1].isdecimal()
    return whole and int(first[1]) == len(second) - 1 and all(is_number(c) for c in second)


def _is_header(first: list[str], head: Sequence[list[str]]) -> bool:
    """Whether the first line is a header.

    It has a word where the second line has a value, or, in a table of words, one that differs from
    the words below it, which repeat.
    """
    if not head:
        return False
    above = [looks_like_value(c) for c in first]
    below = [looks_like_value(c) for c in head[0]]
    if any(below):  # lines may differ in length
        return any(b and not a for a, b in zip(above, below, strict=False))
    for k, name in enumerate(first):
        column = [row[k].strip() for row in head if k < len(row)]
        if len(head) > 2 and 2 * len({*column}) <= len(column) and name.strip() not in column:
            return True
    return False


def find_columns(path: Path, names: Sequence[str], text: str, field: str) -> list[int]:
    """Returns the positions of columns: a name, a number, a range as 20-29, or several with commas.

    Numbers count from 0, negative ones from the end. A column that comes twice has one position.

    Raises:
        DataError: if there is no such column.
    """
    if text in names:
        return [names.index(text)]
    if "," in text:
        parts = [find_columns(path, names, part.strip(), field) for part in text.split(",")]
        return [*dict.fromkeys(k for part in parts for k in part)]
    span = RANGE.fullmatch(text)
    try:
        first, last = map(int, span.groups()) if span else (int(text),) * 2
    except ValueError:
        first, last = 1, 0  # an empty range, which is refused below
    if not (first <= last and -len(names) <= first and last < len(names)):
        raise DataError(
            f"{path}: `{field}=` must be one of {listed(names)}, a number from 0 to "
            f"{len(names) - 1} or a range such as 0-{len(names) - 1}, but got {text}."
        )
    return [k % len(names) for k in range(first, last + 1)]


def with_head(rows: Iterator[Row], count: int) -> tuple[list[Row], Iterator[Row]]:
    """Returns the first rows, and all rows."""
    head = list(islice(rows, count))
    return head, chain(head, rows)
