"""Memory-mapped files that detect truncation.

Reading a mapping beyond the end of its file raises SIGBUS, which ends the process. The compiled
module handles the signal: it maps zeros there and marks the file. Without the compiled module, only
the file's size can be checked.
"""

import ctypes
import mmap
import os
import weakref
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from odt.errors import LostFileError
from odt.kernels.native.mapped_files import forget_mapped, watch_mapped
from odt.kernels.rows.opdef import Array

MAPPED_CAN_BE_REPLACED = os.name != "nt"


class MappedFile(mmap.mmap):
    """A whole file, mapped read-only.

    Attributes:
        name: the file's name in messages.
    """

    name: str
    _mark: ctypes.c_int | None

    def __new__(cls, handle: int, name: str | os.PathLike[str]) -> Self:
        """Maps a file.

        Args:
            handle: file descriptor of a file that is not empty; may be closed afterwards.
            name: the file's name in messages.
        """
        self = super().__new__(cls, handle, 0, access=mmap.ACCESS_READ)
        self.name = os.fspath(name)
        self._mark = watch_mapped(np.frombuffer(self, np.uint8))
        if self._mark is not None:
            weakref.finalize(self, forget_mapped, self._mark).atexit = False
        return self

    @property
    def has_hole(self) -> bool:
        """Whether zeros were read instead of bytes that the file has lost."""
        return self._mark is not None and self._mark.value != 0

    def check(self) -> None:
        """Checks that the bytes read so far came from the file.

        Raises:
            LostFileError: if the file is or was shorter than its mapping.
        """
        if self.size() < len(self):
            problem = "became shorter"
        elif self.has_hole:
            problem = "could not be read to its end"
        else:
            return
        raise LostFileError(
            f"{self.name}: must not change while it is read, but it {problem}. "
            "Replace a file in use by renaming another to its name."
        )


def map_or_read(handle: int, name: str | os.PathLike[str]) -> MappedFile | bytes:
    """Maps a file, or reads it on systems where a mapped file cannot be replaced.

    Args:
        handle: file descriptor of a file that is not empty; may be closed afterwards.
        name: the file's name in messages.
    """
    if MAPPED_CAN_BE_REPLACED:
        return MappedFile(handle, name)
    with open(handle, "rb", closefd=False) as f:
        return f.read()


def mapped_file(a: Any) -> MappedFile | None:
    """Returns the file of a mapped array, memoryview or HDF5 data set; None for other arrays."""
    if hasattr(a, "read_direct"):  # HDF5 reads zeros beyond the end of its file
        with open(a.file.filename, "rb") as f:
            return MappedFile(f.fileno(), a.file.filename)
    while a is not None and not isinstance(a, MappedFile):
        a = a.obj if isinstance(a, memoryview) else getattr(a, "base", None)
    return a


def mapped_files(arrays: Iterable[Array | None]) -> tuple[MappedFile, ...]:
    """Returns the files of all mapped arrays among `arrays`."""
    return tuple({file for file in map(mapped_file, arrays) if file is not None})
