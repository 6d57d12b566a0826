"""Writes data files sample by sample: raw, HDF5 or NPZ. A file gets its name when it is complete.

A raw file holds all samples of tensor 0, then all samples of tensor 1, …, as onert_train reads it.
Until the number of samples is known, all tensors but the first are in unnamed temporary files.
"""

import hashlib
import os
import tempfile
import zipfile
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, ClassVar, cast

import numpy as np

from odt.core.storage.atomic_files import AtomicFile
from odt.core.storage.hdf5 import load_h5py
from odt.core.storage.reading import reason, unwritable
from odt.datasets.tree import COPY
from odt.errors import DataError
from odt.kernels.rows.opdef import Array, TensorSpec

GATHER = 1 << 20  # bytes that are handed to the writing thread together
AHEAD = 8  # such batches that may wait for the thread
SYNC = 1 << 25  # bytes after which the system is asked to begin writing to the disk
MARGIN = 1 << 18  # bytes that HDF5 may write besides the samples
CHUNK = 1 << 20  # bytes of an HDF5 chunk, or one sample if that is larger


class Output:
    """A data file that is being written.

    Args:
        path: name of the file, unless commit gives another name.
        tensors: shape and dtype of one sample of each tensor.
        stack: exit stack; discards the file when it closes, unless the file was committed.
    """

    ending: ClassVar[str]

    def __init__(self, path: Path, tensors: Sequence[TensorSpec], stack: ExitStack) -> None:
        self.tensors = tuple(tensors)
        self.samples = 0
        self._file = AtomicFile(path, DataError)
        stack.callback(self._file.discard)
        self._open(path, stack)

    def _open(self, path: Path, stack: ExitStack) -> None:
        raise NotImplementedError

    def append(self, arrays: Sequence[Array]) -> None:
        """Adds one sample.

        Args:
            arrays: contiguous arrays of the tensors' shapes and dtypes. The caller must not change
                them afterwards, because they may be written later.
        """
        raise NotImplementedError

    def finish(self) -> str:
        """Completes the file without giving it its name; returns its SHA-256 in hexadecimal."""
        raise NotImplementedError

    def commit(self, path: Path) -> None:
        """Gives the complete file its name."""
        self._file.path = path
        self._file.commit()


class RawOutput(Output):
    """A raw file, written and hashed by a separate thread: neither needs the interpreter lock."""

    ending = "bin"

    def _open(self, path: Path, stack: ExitStack) -> None:
        self._hash = hashlib.sha256()
        self._writer = stack.enter_context(ThreadPoolExecutor(1))
        self._waiting: deque[Future[None]] = deque()
        self._pieces: list[Any] = []
        self._gathered = self._unsynced = 0  # bytes
        # Samples of the tensors that follow the first one in the file.
        self._later = [_unnamed_file(path.parent, stack) for _ in self.tensors[1:]]

    def append(self, arrays: Sequence[Array]) -> None:
        self._add(_bytes(arrays[0]))
        for file, array in zip(self._later, arrays[1:], strict=True):
            _write(file, _bytes(array))
        self.samples += 1

    def finish(self) -> str:
        for file in self._later:
            file.seek(0)
            while chunk := file.read(COPY):
                self._add(chunk)
        self._hand_over()
        while self._waiting:
            self._waiting.popleft().result()
        return self._hash.hexdigest()

    def _add(self, data: Any) -> None:
        self._pieces.append(data)
        self._gathered += len(data)
        if self._gathered >= GATHER:
            self._hand_over()
            if len(self._waiting) > AHEAD:
                self._waiting.popleft().result()

    def _hand_over(self) -> None:
        self._waiting.append(self._writer.submit(self._write, self._pieces))
        self._pieces = []
        self._gathered = 0

    def _write(self, pieces: list[Any]) -> None:
        for piece in pieces:
            self._file.write(piece)
            self._hash.update(piece)
            self._unsynced += len(piece)
        if self._unsynced >= SYNC:
            self._file.begin_sync()
            self._unsynced = 0


class NpzOutput(Output):
    """An NPZ file of arrays "0", "1", …, uncompressed so that they can be mapped."""

    ending = "npz"

    def _open(self, path: Path, stack: ExitStack) -> None:
        self._parts = [_unnamed_file(path.parent, stack) for _ in self.tensors]

    def append(self, arrays: Sequence[Array]) -> None:
        for file, array in zip(self._parts, arrays, strict=True):
            _write(file, _bytes(array))
        self.samples += 1

    def finish(self) -> str:
        assert self._file.temporary is not None, "the file is not committed yet"
        try:
            with zipfile.ZipFile(self._file.temporary, "w", zipfile.ZIP_STORED) as archive:
                for k, (spec, part) in enumerate(zip(self.tensors, self._parts, strict=True)):
                    part.seek(0)
                    header = {
                        "descr": spec.dtype.str,
                        "fortran_order": False,
                        "shape": (self.samples, *spec.shape),
                    }
                    # The current date would make the file of each run different.
                    entry = zipfile.ZipInfo(f"{k}.npy")
                    with archive.open(entry, "w", force_zip64=True) as member:
                        np.lib.format.write_array_header_1_0(cast(Any, member), header)
                        while chunk := part.read(COPY):
                            member.write(chunk)
        except OSError as e:
            raise _write_error(self._file.path, e) from e
        return sha256(self._file.temporary)


class Hdf5Output(Output):
    """An HDF5 file: group `value`, data sets "0", "1", …, in chunks of about 1 MiB."""

    ending = "h5"

    def _open(self, path: Path, stack: ExitStack) -> None:
        h5py = load_h5py(str(path))
        self._sets: list[Any] = []
        self._rows: list[Array] = []
        # The file is locked already, by AtomicFile.
        self._h5 = h5py.File(self._file.temporary, "w", libver="earliest", locking=False)
        stack.callback(_close_anyway, self._h5)
        self._reserve()
        group = self._h5.create_group("value")
        for k, spec in enumerate(self.tensors):
            rows = max(1, CHUNK // max(1, spec.nbytes))
            dtype = spec.dtype.newbyteorder("<")
            self._sets.append(
                group.create_dataset(
                    str(k),
                    (0, *spec.shape),
                    dtype,
                    maxshape=(None, *spec.shape),
                    chunks=(rows, *spec.shape),
                    track_times=False,
                )
            )
            self._rows.append(np.empty((rows, *spec.shape), dtype))

    def append(self, arrays: Sequence[Array]) -> None:
        for data, rows, array in zip(self._sets, self._rows, arrays, strict=True):
            rows[self.samples % len(rows)] = array
            if (self.samples + 1) % len(rows) == 0:
                self._flush(data, rows, len(rows), self.samples + 1)
        self.samples += 1

    def finish(self) -> str:
        assert self._file.temporary is not None, "the file is not committed yet"
        for data, rows in zip(self._sets, self._rows, strict=True):
            rest = self.samples % len(rows)
            if rest:
                self._flush(data, rows, rest, self.samples)
        try:
            self._h5.close()
        except (OSError, RuntimeError) as e:
            raise _write_error(self._file.path, e) from e
        return sha256(self._file.temporary)

    def _reserve(self) -> None:
        """Reserves disk space for the next write: HDF5 may crash on a full disk."""
        if not hasattr(os, "posix_fallocate") or self._file.temporary is None:
            return
        nbytes = sum(rows.nbytes for rows in self._rows) + MARGIN
        try:
            with open(self._file.temporary, "r+b") as file:
                os.posix_fallocate(file.fileno(), self._h5.id.get_filesize(), nbytes)
        except OSError as e:
            raise _write_error(self._file.path, e) from e

    def _flush(self, data: Any, rows: Array, count: int, end: int) -> None:
        self._reserve()
        try:
            data.resize(end, axis=0)
            data[end - count : end] = rows[:count]
        except (OSError, RuntimeError) as e:
            raise _write_error(self._file.path, e) from e


OUTPUTS: dict[str, type[Output]] = {"raw": RawOutput, "hdf5": Hdf5Output, "npz": NpzOutput}


def sha256(path: str | os.PathLike[str]) -> str:
    """Returns the SHA-256 of a file in hexadecimal."""
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def _bytes(a: Array) -> Any:
    return a.reshape(-1).view(np.uint8).data


def _unnamed_file(folder: Path, stack: ExitStack) -> IO[bytes]:
    file = cast(IO[bytes], tempfile.TemporaryFile(dir=folder))  # noqa: SIM115  # the stack closes it
    stack.callback(_close_anyway, file)
    return file


def _close_anyway(file: Any) -> None:
    """Closes a file and ignores errors: a full disk has been reported before."""
    with suppress(OSError, RuntimeError):
        file.close()


def _write(file: IO[bytes], data: Any) -> None:
    try:
        file.write(data)
    except OSError as e:
        raise DataError(f"a temporary file: cannot be written: {reason(e)}.") from e


def _write_error(path: Any, e: Exception) -> DataError:
    """Returns the error for a file that cannot be written."""
    return DataError(unwritable(path, e))
