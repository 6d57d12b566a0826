"""Writes samples as they come to raw files, HDF5 or NPZ; nothing has its name until all is whole.

A raw file holds all samples of tensor 0, then all of tensor 1, …, as onert_train reads it. While
the number of samples is not known, tensors after the first wait in files without names.
"""

import hashlib
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from odt.core.datasets.tree import COPY, one_line
from odt.core.files import AtomicFile
from odt.errors import DataError
from odt.kernels.opdef import Array, TensorSpec


class RawFile:
    """One raw file in the making.

    Args:
        path: the name it will have, unless finish gives another.
        tensors: shape and dtype of one sample of each.
    """

    ending = "bin"

    def __init__(self, path: Path, tensors: Sequence[TensorSpec], stack: ExitStack) -> None:
        self.tensors = tuple(tensors)
        self.samples = 0
        self._file = AtomicFile(path, DataError)
        stack.callback(self._file.discard)
        self._later = [stack.enter_context(_nameless(path.parent)) for _ in self.tensors[1:]]
        self._hash = hashlib.sha256()

    def append(self, arrays: Sequence[Array]) -> None:
        """Adds one sample: contiguous arrays of the tensors' dtypes."""
        data = arrays[0].reshape(-1).view(np.uint8).data
        self._file.write(data)
        self._hash.update(data)
        for file, array in zip(self._later, arrays[1:], strict=True):
            _write(file, array.reshape(-1).view(np.uint8).data)
        self.samples += 1

    def finish(self) -> str:
        """Puts the tensors one after the other; gives the sha256 in hex."""
        for file in self._later:
            file.seek(0)
            while chunk := file.read(COPY):
                self._file.write(chunk)
                self._hash.update(chunk)
        return self._hash.hexdigest()

    def commit(self, path: Path) -> None:
        self._file.path = path
        self._file.commit()


def _nameless(folder: Path) -> IO[bytes]:
    return cast(IO[bytes], tempfile.TemporaryFile(dir=folder))


def _write(file: IO[bytes], data: Any) -> None:
    try:
        file.write(data)
    except OSError as e:
        raise DataError(f"{file.name}: cannot be written: {one_line(e)}.") from e
