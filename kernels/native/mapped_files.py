"""Detects truncation of mapped files while they are read: see src/mapped_files.c."""

import ctypes
import os

from odt.kernels.native.library import load
from odt.kernels.rows.opdef import Array


def watch_mapped(memory: Array) -> ctypes.c_int | None:
    """Maps zeros over pages of mapped memory that can no longer be read from the file.

    Args:
        memory: the whole map, as bytes.

    Returns:
        A flag that becomes 1 once zeros were mapped; None if files cannot be watched, so that
        reading such a page ends the process.
    """
    library = load()
    if library is None or os.name == "nt":
        return None
    library.watch_mapped.argtypes = ctypes.c_void_p, ctypes.c_int64
    library.watch_mapped.restype = ctypes.c_void_p
    at = library.watch_mapped(memory.ctypes.data, memory.nbytes)
    return ctypes.c_int.from_address(at) if at else None


def forget_mapped(mark: ctypes.c_int) -> None:
    """Ends the watch; must be called before the memory is unmapped."""
    library = load()
    assert library is not None, "there is a mark"
    library.forget_mapped(ctypes.byref(mark))
