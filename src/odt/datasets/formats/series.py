"""Time series and attribute-relation files: .ts and .arff."""

from odt.datasets.arff import open_arff
from odt.datasets.series import open_series
from odt.datasets.source import Source
from odt.datasets.source_format import Opening, SourceFormat


def open_ts(opening: Opening) -> Source:
    """Opens a .ts file."""
    return open_series(opening.path, opening.table.classes or None)


def open_attributes(opening: Opening) -> Source:
    """Opens an .arff file."""
    return open_arff(opening.path, opening.table)


FORMATS = (
    SourceFormat("ts", open_ts, (".ts",), contents="time series, as of the UEA archive", place=20),
    SourceFormat(
        "arff",
        open_attributes,
        (".arff",),
        contents="table with typed columns (Weka)",
        place=21,
    ),
)
