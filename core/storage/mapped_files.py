"""Files mapped into memory, which notice when they become shorter.

Reading a map behind the end of its file is a SIGBUS, which ends the process. The compiled module
puts zeros there instead and sets the file's mark; without it only the size can be looked at.
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
from odt.kernels.opdef import Array


class MappedFile(mmap.mmap):
    """A whole file, mapped read-only.

    Attributes:
        name: as messages give it.
    """

    name: str
    _mark: ctypes.c_int | None

    def __new__(cls, handle: int, name: str | os.PathLike[str]) -> Self:
        """Maps.

        Args:
            handle: of the file, which must not be empty; may be closed afterwards.
            name: as messages give it.
        """
        self = super().__new__(cls, handle, 0, access=mmap.ACCESS_READ)
        self.name = os.fspath(name)
        self._mark = watch_mapped(np.frombuffer(self, np.uint8))
        if self._mark is not None:
            weakref.finalize(self, forget_mapped, self._mark).atexit = False
        return self

    @property
    def has_hole(self) -> bool:
        """Whether zeros were read in place of the file's bytes."""
        return self._mark is not None and self._mark.value != 0

    def check(self) -> None:
        """To be called after reading.

        Raises:
            LostFileError: if the file is or was shorter than its map.
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


def mapped_file(a: Any) -> MappedFile | None:
    """The file that an array or a memoryview is a view of, or a data set of HDF5 is in, if any."""
    if hasattr(a, "read_direct"):  # HDF5 gives zeros for what is behind the end of its file
        with open(a.file.filename, "rb") as f:
            return MappedFile(f.fileno(), a.file.filename)
    while a is not None and not isinstance(a, MappedFile):
        a = a.obj if isinstance(a, memoryview) else getattr(a, "base", None)
    return a


def mapped_files(arrays: Iterable[Array | None]) -> tuple[MappedFile, ...]:
    """The files that these arrays are views of."""
    return tuple({file for file in map(mapped_file, arrays) if file is not None})
