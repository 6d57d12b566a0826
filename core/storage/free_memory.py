"""Memory of the process: its size, and how to keep it free of holes.

Reading and planning a model leave holes in the memory of the process, which only small objects can
fill: 1.5 MB for a quantized MobileNetV2. They would stay beside the arenas of training.
"""

import ctypes
import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

STATM = "/proc/self/statm"  # pages of the process; the second number is those in memory
# Bytes of a process that has imported what `odt train` imports within a budget: Linux, x86-64,
# Python 3.11, NumPy 2.4. For systems that do not report the memory of a process, and for processes
# of other machines.
USUAL_PROCESS = 49_000_000

_other_process: ContextVar[int | None] = ContextVar("other_process", default=None)


def give_back() -> None:
    """Gives memory that is not in use back to the system; only glibc can do it on demand."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def resident_nbytes() -> int:
    """Returns the resident memory of this process, or within `in_process_of` of that process."""
    nbytes = _other_process.get()
    if nbytes is not None:
        return nbytes
    try:
        with open(STATM, "rb") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except OSError:  # only Linux has it
        return USUAL_PROCESS


@contextmanager
def in_process_of(nbytes: int) -> Iterator[None]:
    """Plans for a process that takes so many bytes before training, in a `with` block."""
    token = _other_process.set(nbytes)
    try:
        yield
    finally:
        _other_process.reset(token)
