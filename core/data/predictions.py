"""Writes a model's outputs to a file: one as .npy or .csv, or all outputs by name as .npz."""

import csv
import io
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from odt.core.storage.atomic_files import AtomicFile
from odt.core.storage.reading import unwritable
from odt.errors import DataError
from odt.kernels.rows.opdef import Array, TensorSpec

COPY = 1 << 20  # bytes

Append = Callable[[Sequence[Array]], None]


@contextmanager
def write_npy(path: str, sample: TensorSpec, length: int, index: int) -> Iterator[Append]:
    """Writes one output as .npy; yields a function that appends rows of all outputs.

    Args:
        path: path of the file, which appears when the `with` block ends.
        sample: spec of one row.
        length: total number of rows.
        index: position of the output among those passed to the function.
    """
    with AtomicFile(path, DataError) as file:
        _write_header(file, sample, length)

        def append(arrays: Sequence[Array]) -> None:
            file.write(arrays[index].data)

        yield append


@contextmanager
def write_npz(path: str, samples: Mapping[str, TensorSpec], length: int) -> Iterator[Append]:
    """Writes outputs by name as .npz; yields a function that appends rows of all outputs.

    An .npz file holds one array after the other, so the rows wait in unnamed temporary files.
    """
    with AtomicFile(path, DataError) as file, ExitStack() as stack:
        assert file.temporary is not None
        folder, target = Path(os.path.realpath(path)).parent, file.temporary
        with _refusing(path):
            files = [stack.enter_context(tempfile.TemporaryFile(dir=folder)) for _ in samples]

        def append(arrays: Sequence[Array]) -> None:
            with _refusing(path):
                for rows, array in zip(files, arrays, strict=True):
                    rows.write(array.data)

        yield append
        with _refusing(path), zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
            for (name, sample), rows in zip(samples.items(), files, strict=True):
                rows.seek(0)
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    _write_header(member, sample, length)
                    while chunk := rows.read(COPY):
                        member.write(chunk)


@contextmanager
def write_csv(
    path: str, columns: Sequence[str], index: int, label: Callable[[int], str], *, classes: bool
) -> Iterator[Append]:
    """Writes one output as CSV; yields a function that appends rows of all outputs.

    Args:
        path: path of the file, which appears when the `with` block ends.
        columns: name of each value of the output.
        index: position of the output among those passed to the function.
        label: number of a row → name of its sample.
        classes: whether a column names the class of the largest value.
    """
    with AtomicFile(path, DataError) as file:
        number = 0

        def write(cells: Sequence[object]) -> None:
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerow(cells)
            file.write(text.getvalue().encode("utf-8", "backslashreplace"))

        def append(arrays: Sequence[Array]) -> None:
            nonlocal number
            for row in arrays[index].reshape(len(arrays[index]), -1):
                best = [columns[int(row.argmax())]] if classes else []
                write([label(number), *best, *map(_digits, row)])
                number += 1

        write(["sample", *(["class"] if classes else []), *columns])
        yield append


def _digits(value: Any) -> str:
    """Returns a number of NumPy with all the digits that its type has."""
    if value.dtype.kind in "biu":
        return str(int(value))
    return f"{value:.9g}" if value.itemsize <= 4 else repr(value.item())


def _write_header(file: AtomicFile | IO[bytes], sample: TensorSpec, length: int) -> None:
    """Writes the header of an .npy file."""
    descr = np.lib.format.dtype_to_descr(sample.dtype)
    header = {"descr": descr, "fortran_order": False, "shape": (length, *sample.shape)}
    np.lib.format.write_array_header_1_0(cast(Any, file), header)


@contextmanager
def _refusing(path: str) -> Iterator[None]:
    """Raises DataError instead of OSError, with the path of the new file."""
    try:
        yield
    except OSError as e:
        raise DataError(unwritable(path, e)) from e
