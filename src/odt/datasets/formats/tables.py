"""CSV, TSV, text and Parquet tables, and folders of them."""

from collections.abc import Callable
from dataclasses import replace

from odt.datasets.parquet import open_parquet
from odt.datasets.source import Source
from odt.datasets.source_format import Opening, SourceFormat
from odt.datasets.table_folders import open_folder
from odt.datasets.table_source import open_table


def delimited(name: str, delimiter: str, *, spaces: bool = False) -> Callable[[Opening], Source]:
    """Opens tables.

    Args:
        name: name of the format.
        delimiter: delimiter if the user names the format; empty to find it in the file.
        spaces: whether columns may be separated by spaces.
    """

    def open_file(opening: Opening) -> Source:
        table = replace(opening.table, spaces=spaces)
        if not table.delimiter and opening.format == name:
            table = replace(table, delimiter=delimiter)
        return open_table(opening.path, table, opening.targets)

    return open_file


def open_columns(opening: Opening) -> Source:
    """Opens a Parquet file."""
    return open_parquet(opening.path, opening.table)


def open_tables(opening: Opening) -> Source:
    """Opens a folder or archive of tables."""
    return open_folder(opening.path, opening.table, opening.naming)


FORMATS = (
    SourceFormat("csv", delimited("csv", ""), (".csv",), contents="table of text", place=3),
    SourceFormat(
        "tsv",
        delimited("tsv", "\t"),
        (".tsv", ".tab"),
        contents="table with tabs",
        place=4,
    ),
    SourceFormat(
        "text",
        delimited("text", " ", spaces=True),
        (".txt", ".data"),
        contents="table with spaces or any other delimiter",
        place=5,
    ),
    SourceFormat("parquet", open_columns, (".parquet",), contents="Parquet table", place=6),
    SourceFormat("tables", open_tables, contents="folder or archive of tables", place=3),
)
