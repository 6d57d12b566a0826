"""NumPy, HDF5 and raw files."""

from dataclasses import replace

from odt.core.storage.reading import reading
from odt.datasets.arrays import open_arrays
from odt.datasets.source import Source
from odt.datasets.source_format import Opening, SourceFormat


def open_file(opening: Opening) -> Source:
    """Opens a file of arrays."""
    with reading(opening.text, "must be arrays that can be read"):
        form = "" if opening.format == "auto" else opening.format
        arrays = replace(opening.arrays, format=form)
        return open_arrays(opening.path, arrays, opening.targets)


FORMATS = (
    SourceFormat("npy", open_file, (".npy",), contents="one NumPy array", place=6),
    SourceFormat("npz", open_file, (".npz",), contents="NumPy arrays by name", place=7),
    SourceFormat("hdf5", open_file, (".h5", ".hdf5"), contents="HDF5 data sets by name", place=8),
    SourceFormat(
        "raw", open_file, (".bin", ".raw"), contents="one array without a header", place=9
    ),
)
