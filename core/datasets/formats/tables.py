"""CSV, TSV and text tables."""

from collections.abc import Callable
from dataclasses import replace

from odt.core.datasets.source import Source
from odt.core.datasets.source_format import Opening, SourceFormat
from odt.core.datasets.table_source import open_table


def delimited(delimiter: str) -> Callable[[Opening], Source]:
    """Opens tables with a delimiter; an empty one is detected from the file."""

    def open_file(opening: Opening) -> Source:
        table = opening.table
        if not table.delimiter:
            table = replace(table, delimiter=delimiter)
        return open_table(opening.path, table, opening.targets)

    return open_file


FORMATS = (
    SourceFormat("csv", delimited(""), (".csv",), contents="table, delimiter detected", place=3),
    SourceFormat("tsv", delimited("\t"), (".tsv",), contents="table with tabs", place=4),
    SourceFormat("text", delimited(" "), (".txt", ".data"), contents="table with spaces", place=5),
)
