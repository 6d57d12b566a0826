"""The library of kernels compiled from C, which is there if the package was built with a compiler.

`ODT_KERNELS=numpy` leaves them out; `avx512`, `avx2` and `base` choose an instruction set.
"""

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import MappingProxyType

from odt.errors import OdtError, OptionError
from odt.kernels.native.structs import STRUCTS
from odt.kernels.opdef import Attrs, Compiled, Kernel, Specs

SETS = ("base", "avx2", "avx512")
NOT_BUILT = "No kernels were compiled when odt was installed"
REMEDY = "install with a C compiler for faster training"


class LibraryError(OdtError):
    """Compiled kernels that were not built from the C sources of this odt."""


class _Entry(ctypes.Structure):
    """As export_entry in src/module.c."""

    _fields_ = [
        *((name, ctypes.c_char_p) for name in ("kind", "name", "arguments")),
        ("value", ctypes.c_int64),
    ]


@dataclass(frozen=True, slots=True)
class Exports:
    """The library's table: limits and bytes of structs by name, arguments of kernels as in C."""

    limits: Mapping[str, int]
    structs: Mapping[str, int]
    kernels: Mapping[str, str]


@cache
def _open() -> tuple[ctypes.CDLL | None, str]:
    """The library, and in what it differs from this package."""
    folder = Path(__file__).parent
    for suffix in EXTENSION_SUFFIXES:
        path = folder / f"_kernels{suffix}"
        if path.exists():
            library = ctypes.CDLL(str(path))
            return library, _mismatch(library)
    return None, ""


def _mismatch(library: ctypes.CDLL) -> str:
    """In what the library differs from this package's structs, or nothing."""
    if not hasattr(library, "exports"):
        return "it has no table of its kernels"
    found = read_exports(library).structs
    wanted = {name: ctypes.sizeof(struct) for name, struct in STRUCTS.items()}
    wrong = [n for n in {*found, *wanted} if found.get(n) != wanted.get(n)]
    return "; ".join(
        f"{n} has {found.get(n, 0)} bytes, not {wanted.get(n, 0)}" for n in sorted(wrong)
    )


def read_exports(library: ctypes.CDLL) -> Exports:
    """The table of src/module.c."""
    library.exports.restype = ctypes.POINTER(_Entry)
    entries = library.exports()
    found: dict[str, dict[str, int | str]] = {"limit": {}, "struct": {}, "kernel": {}}
    k = 0
    while entries[k].name:
        entry = entries[k]
        value = entry.arguments.decode() if entry.arguments else entry.value
        found[entry.kind.decode()][entry.name.decode()] = value
        k += 1
    return Exports(*(MappingProxyType(d) for d in found.values()))  # type: ignore[arg-type]


def load() -> ctypes.CDLL | None:
    """The library of compiled kernels; None where there is none.

    Raises:
        LibraryError: if it was not built from this package's sources, and ODT_KERNELS=numpy does
            not leave it out. NumPy kernels would give other bits, and several times slower.
    """
    library, wrong = _open()
    if not wrong:
        return library
    if os.environ.get("ODT_KERNELS") == "numpy":
        return None
    raise LibraryError(
        f"the compiled kernels must be those of this odt, but {wrong}. "
        "Install odt again, or set ODT_KERNELS=numpy."
    )


@cache
def exports() -> Exports:
    """The table of the loaded library, which must exist."""
    library = load()
    assert library is not None, "nothing is compiled"
    return read_exports(library)


def limit(name: str) -> int:
    """A limit of src/abi.h."""
    return exports().limits[name]


@cache
def instruction_sets() -> tuple[str, ...]:
    """The instruction sets that this machine can run, the best last; none without a library."""
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
    """The kernels in use, as a line for the user.

    Raises:
        OptionError: if ODT_KERNELS names what this machine cannot run.
    """
    if is_available():
        return f"compiled kernels: {kernels_in_use()}"
    return f"NumPy kernels only: {'ODT_KERNELS says so' if instruction_sets() else REMEDY}"


def is_available() -> bool:
    return kernels_in_use() != "numpy"


def set_threads(count: int) -> None:
    """Sets the number of cores for a call, from now on and for the whole process."""
    library = load()
    if library is not None:
        library.set_threads(count)


def compiled_of(kernel: Kernel, attrs: Attrs, specs: Specs) -> Compiled | None:
    """The kernel's compiled form, if there is one that can be used for these specs."""
    compiled = kernel.compiled
    return compiled if compiled and is_available() and compiled.fits(attrs, specs) else None
