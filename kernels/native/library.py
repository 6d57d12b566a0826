"""Kernels compiled from C: used where the package was built with a compiler, and never needed.

`ODT_KERNELS=numpy` leaves them out; `avx512`, `avx2` and `base` choose an instruction set.
"""

import ctypes
import os
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from odt.errors import OptionError
from odt.kernels.opdef import Attrs, Compiled, Kernel, Specs

SETS = ("base", "avx2", "avx512")
NOT_BUILT = "No kernels were compiled when odt was installed"
REMEDY = "install with a C compiler for faster training"


@cache
def load() -> ctypes.CDLL | None:
    folder = Path(__file__).parent
    for suffix in EXTENSION_SUFFIXES:
        path = folder / f"_kernels{suffix}"
        if path.exists():
            return ctypes.CDLL(str(path))
    return None


@cache
def instruction_sets() -> tuple[str, ...]:
    """What this machine can run, the best last; nothing without a library."""
    library = load()
    return SETS[: library.instruction_set() + 1] if library else ()


def kernels_in_use() -> str:
    """The instruction set of the compiled kernels in use, or "numpy".

    Raises:
        OptionError: if ODT_KERNELS names what this machine cannot run.
    """
    asked = os.environ.get("ODT_KERNELS", "")
    known = ("numpy", *instruction_sets())
    if asked and asked not in known:
        why = "This processor has no others" if instruction_sets() else f"{NOT_BUILT}: {REMEDY}"
        raise OptionError(f"ODT_KERNELS: must be {', '.join(known)}, but got {asked}. {why}.")
    return asked or known[-1]


def describe_kernels() -> str:
    """What computes, in a line.

    Raises:
        OptionError: if ODT_KERNELS names what this machine cannot run.
    """
    if is_available():
        return f"compiled kernels: {kernels_in_use()}"
    return f"NumPy kernels only: {'ODT_KERNELS says so' if instruction_sets() else REMEDY}"


def is_available() -> bool:
    return kernels_in_use() != "numpy"


def set_threads(count: int) -> None:
    """How many cores share a call, from now on and for the whole process."""
    library = load()
    if library is not None:
        library.set_threads(count)


def compiled_of(kernel: Kernel, attrs: Attrs, specs: Specs) -> Compiled | None:
    """The kernel's compiled form, if there is one that can be used for these specs."""
    compiled = kernel.compiled
    return compiled if compiled and is_available() and compiled.fits(attrs, specs) else None
