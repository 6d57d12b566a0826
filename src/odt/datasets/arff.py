"""Reads .arff files, Weka's tables with typed columns. Columns of words become one-hot.

Format: "Attribute-Relation File Format" in the documentation of Weka. Sparse rows, dates and
relations are refused.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import IO

from odt.core.storage.reading import printable, reading
from odt.datasets.source import Source
from odt.datasets.table_source import table_source
from odt.datasets.table_text import Row, as_text, find_columns
from odt.datasets.tables import TableOptions, parse_table
from odt.datasets.tree import unpacked
from odt.errors import DataError

ATTRIBUTE = re.compile(r"@attribute\s+('[^']*'|\"[^\"]*\"|\S+)\s+(.+)", re.IGNORECASE)
NUMERIC = ("numeric", "real", "integer")


def open_arff(path: Path, options: TableOptions) -> Source:
    """Opens an .arff file as a source with one part.

    Args:
        path: the file, optionally compressed.
        options: options for reading a table; columns of words are encoded as one-hot.

    Raises:
        DataError: if the file breaks the format.
    """
    with reading(str(path), "must be an .arff file"), closing(unpacked(path)) as data:
        text = as_text(data)
        line, columns = _header(path, text)
        names = list(columns)
        words = [name for name, nominal in columns.items() if nominal]
        labels: Sequence[int] = ()
        if options.label != "none":
            labels = find_columns(path, names, options.label, "label_column")
        inputs = [w for w in words if names.index(w) not in labels and w not in options.leave_out]
        options = replace(options, header=True, one_hot=(*options.one_hot, *inputs))
        rows = chain([(line, names)], _rows(path, text, line))
        table = parse_table(path, rows, options)
    targets = [table.names[k] for k in table.layout.labels]
    return table_source(path, table, table.targets, targets, options)


def _header(path: Path, text: IO[str]) -> tuple[int, dict[str, bool]]:
    """Returns the number of the line @data, and column name → whether the column holds words."""
    columns: dict[str, bool] = {}
    for number, line in enumerate(iter(text.readline, ""), 1):
        content = line.strip()
        if content.lower() == "@data":
            return number, columns
        match = ATTRIBUTE.match(content)
        if not match:
            continue  # @relation, a comment, or empty
        name = match[1].strip("'\"")
        kind = match[2].strip().lower()
        if not (kind.startswith("{") or kind in NUMERIC or kind == "string"):
            raise DataError(
                f"{path}: line {number}: column {printable(name)} must hold numbers or words, but "
                f"is {printable(kind)}."
            )
        columns[name] = kind not in NUMERIC
    raise DataError(f"{path}: must have a line @data, but has none.")


def _rows(path: Path, text: IO[str], header: int) -> Iterator[Row]:
    """Yields the rows after the header, which has `header` lines."""
    reader = csv.reader(text, quotechar="'", skipinitialspace=True)
    for cells in reader:
        number = header + reader.line_num
        if not cells or cells[0].startswith("%"):
            continue
        if cells[0].startswith("{"):
            raise DataError(f"{path}: line {number}: must be a full row, but is a sparse one.")
        yield number, [cell.strip().strip('"') for cell in cells]
