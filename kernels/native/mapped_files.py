"""Watches mapped files that may become shorter while they are read: see src/mapped_files.c."""

import ctypes
import os

from odt.kernels.native.library import load
from odt.kernels.opdef import Array


def watch_mapped(memory: Array) -> ctypes.c_int | None:
    """Fills holes in mapped memory with zeros, should its file become shorter while it is read.

    Args:
        memory: of the whole map, as bytes.

    Returns:
        A mark that becomes 1 once a hole was filled; None where files cannot be watched, and a hole
        ends the process.
    """
    library = load()
    if library is None or os.name == "nt":
        return None
    library.watch_mapped.argtypes = ctypes.c_void_p, ctypes.c_int64
    library.watch_mapped.restype = ctypes.c_void_p
    at = library.watch_mapped(memory.ctypes.data, memory.nbytes)
    return ctypes.c_int.from_address(at) if at else None


def forget_mapped(mark: ctypes.c_int) -> None:
    """Ends the watch; to be called before the memory is unmapped."""
    library = load()
    assert library is not None, "there is a mark"
    library.forget_mapped(ctypes.byref(mark))
