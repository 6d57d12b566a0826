"""Reads Parquet tables with pyarrow, as tables of text whose cells are the values in words.

So columns are found, encoded and recorded as those of CSV, and a record of one form reads rows of
the other.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from odt.core.storage.reading import guard, open_input, printable, reading
from odt.datasets.source import Source
from odt.datasets.table_source import table_source
from odt.datasets.table_text import Row, find_columns
from odt.datasets.tables import TableOptions, parse_table
from odt.errors import DataError, MissingPackageError

ROWS = 1024  # that are converted at a time
NUMBER = 8  # bytes


def open_parquet(path: Path, options: TableOptions) -> Source:
    """Opens a Parquet file as a source with one part.

    Args:
        path: the file.
        options: options for reading a table.

    Raises:
        DataError: if the file is damaged, or a column holds what is neither numbers nor words.
        MissingPackageError: if pyarrow is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError as e:
        raise MissingPackageError(
            f"{path}: reading Parquet needs pyarrow, which is not installed. Install it: pip "
            "install 'odt[tables]'."
        ) from e
    with open_input(path) as handle, reading(str(path), "must be a Parquet file"):
        file = pyarrow.parquet.ParquetFile(handle, pre_buffer=False)
        schema = file.schema_arrow
        numbers = file.metadata.num_rows * len(schema.names) * NUMBER
        guard(str(path), path.stat().st_size, numbers)
        out = [find_columns(path, schema.names, c, "leave_out") for c in options.leave_out]
        left_out = {*chain(*out)}
        faults = [
            f"{printable(field.name)} holds {printable(field.type)}"
            for k, field in enumerate(schema)
            if k not in left_out and not _is_readable(field.type)
        ]
        if faults:
            raise DataError(
                f"{path}: columns must hold numbers, words, dates or lists of numbers, but "
                f"{', '.join(faults)}. Leave them out with `leave_out=`."
            )
        rows = chain([(0, list(schema.names))], _rows(file))
        table = parse_table(path, rows, replace(options, header=True), where="row {}".format)
    names = [table.names[k] for k in table.layout.labels]
    return table_source(path, table, table.targets, names, options)


def _is_readable(kind: Any) -> bool:
    """Whether values of a type of Arrow can be cells."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return _is_readable(kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return bool(_is_number(kind.value_type))
    is_word = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    is_date = types.is_date(kind) or types.is_timestamp(kind) or types.is_time(kind)
    return bool(_is_number(kind) or is_word or is_date or types.is_null(kind))


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    is_real = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return bool(is_real or types.is_boolean(kind))


def _rows(file: Any) -> Iterator[Row]:
    """Yields all rows, which count from 1, with the values as text."""
    number = 0
    for batch in file.iter_batches(ROWS, use_threads=False):
        for values in zip(*map(_values, batch.columns), strict=True):
            number += 1
            yield number, [_cell(value) for value in values]


def _values(column: Any) -> list[Any]:
    """Returns the values of a column as those of Python, whose dates end at microseconds."""
    import pyarrow

    if not _is_readable(column.type):
        return [None] * len(column)
    if pyarrow.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pyarrow.timestamp("us", column.type.tz), safe=False)
    return list(column.to_pylist())


def _cell(value: Any) -> str:
    """Returns a value as a cell of a table of text; empty for a missing one."""
    if value is None:
        return ""
    return " ".join(map(_cell, value)) if isinstance(value, list) else str(value)
