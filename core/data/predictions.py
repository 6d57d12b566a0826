"""A model's outputs in a file: one as an .npy array, or each by its name in an .npz."""

import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from odt.core.model.graph import Graph
from odt.core.storage.atomic_files import AtomicFile
from odt.errors import DataError
from odt.kernels.opdef import Array, TensorSpec

COPY = 1 << 20  # bytes

Append = Callable[[Sequence[Array]], None]


def output_names(graph: Graph) -> tuple[str, ...]:
    """Names of the outputs' tensors; an output without a name of its own goes by its number."""
    names = [graph.tensors[i].name for i in graph.outputs]
    return tuple(n if n and names.count(n) == 1 else str(k) for k, n in enumerate(names))


@contextmanager
def write_npy(path: str, sample: TensorSpec, length: int, index: int) -> Iterator[Append]:
    """A function that appends the next rows of one output; the file is there when the block ends.

    Args:
        path: of the file.
        sample: spec of one row.
        length: how many rows there will be.
        index: of the output, among those that append is given.
    """
    with AtomicFile(path, DataError) as file:
        _write_header(file, sample, length)

        def append(arrays: Sequence[Array]) -> None:
            file.write(arrays[index].data)

        yield append


@contextmanager
def write_npz(path: str, samples: Mapping[str, TensorSpec], length: int) -> Iterator[Append]:
    """The same for several arrays by name: they wait in files without names, for an .npz holds
    one after the other.
    """
    with AtomicFile(path, DataError) as file, ExitStack() as stack:
        assert file.temporary is not None
        folder, target = Path(os.path.realpath(path)).parent, file.temporary
        with _refusing(path):
            parts = [stack.enter_context(tempfile.TemporaryFile(dir=folder)) for _ in samples]

        def append(arrays: Sequence[Array]) -> None:
            with _refusing(path):
                for part, array in zip(parts, arrays, strict=True):
                    part.write(array.data)

        yield append
        with _refusing(path), zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
            for (name, sample), part in zip(samples.items(), parts, strict=True):
                part.seek(0)
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    _write_header(member, sample, length)
                    while chunk := part.read(COPY):
                        member.write(chunk)


def _write_header(file: AtomicFile | IO[bytes], sample: TensorSpec, length: int) -> None:
    """What an .npy file begins with."""
    descr = np.lib.format.dtype_to_descr(sample.dtype)
    header = {"descr": descr, "fortran_order": False, "shape": (length, *sample.shape)}
    np.lib.format.write_array_header_1_0(cast(Any, file), header)


@contextmanager
def _refusing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise DataError(
            f"{path}: must be a file that can be written, but got: {(e.strerror or str(e)).lower()}"
        ) from e
