"""The library of kernels compiled from C, present if a compiler was available at installation.

`ODT_KERNELS=numpy` disables it; the name of an instruction set selects that set: `base`, which
every processor has, `avx2` and `avx512` on x86-64, `neon` on 32-bit ARM.
"""

import ctypes
import os
from collections.abc import Callable, Mapping
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from types import MappingProxyType

from odt.dataclass import dataclass
from odt.errors import OdtError, OptionError, UnsupportedError
from odt.kernels.native.structs import STRUCTS
from odt.kernels.native.target import Target, other_target, target_of
from odt.kernels.rows.opdef import Attrs, Compiled, Kernel, Specs

NOT_BUILT = "No kernels were compiled when odt was installed"
CHOSEN = "ODT_KERNELS says so"
BF16_SET = "avx512"  # the instruction set of src/bf16.c
REMEDY = "for faster training install a C compiler, then odt again without pip's cache"


class LibraryError(OdtError):
    """The library was not compiled from the C sources of this odt."""


class _Entry(ctypes.Structure):
    """The struct export_entry in src/module.c."""

    _fields_ = [("text", ctypes.c_char_p), ("value", ctypes.c_int64)]


@dataclass(frozen=True, slots=True)
class Exports:
    """The library's table, by name.

    Attributes:
        limits: values.
        structs: sizes in bytes.
        kernels: arguments.
        callers: addresses of the functions that call kernels.
    """

    limits: Mapping[str, int]
    structs: Mapping[str, int]
    kernels: Mapping[str, str]
    callers: Mapping[str, int]


@cache
def _open() -> tuple[ctypes.CDLL | None, str]:
    """Opens the library; returns it and how it differs from this package."""
    folder = os.path.dirname(__file__)
    for suffix in EXTENSION_SUFFIXES:
        path = os.path.join(folder, f"_kernels{suffix}")
        if os.path.exists(path):
            library = ctypes.CDLL(path)
            return library, _mismatch(library)
    return None, ""


def _mismatch(library: ctypes.CDLL) -> str:
    """Describes how the library's structs differ from the package's; empty if they agree."""
    if not hasattr(library, "exports"):
        return "it has no table of its kernels"
    actual = read_exports(library).structs
    expected = {name: ctypes.sizeof(struct) for name, struct in STRUCTS.items()}
    wrong = [n for n in {*actual, *expected} if actual.get(n) != expected.get(n)]
    return "; ".join(
        f"{n} has {actual.get(n, 0)} bytes, not {expected.get(n, 0)}" for n in sorted(wrong)
    )


def read_exports(library: ctypes.CDLL) -> Exports:
    """Reads the table in src/module.c."""
    library.exports.restype = ctypes.POINTER(_Entry)
    entries = library.exports()
    table: dict[str, dict[str, int | str]] = {"limit": {}, "struct": {}, "kernel": {}, "caller": {}}
    k = 0
    while text := entries[k].text:
        kind, name, *arguments = text.decode().split(" ", 2)
        table[kind][name] = arguments[0] if arguments else entries[k].value
        k += 1
    return Exports(*(MappingProxyType(d) for d in table.values()))  # type: ignore[arg-type]


def load() -> ctypes.CDLL | None:
    """Returns the library of compiled kernels, or None.

    Raises:
        LibraryError: if it was not compiled from this package's sources, unless ODT_KERNELS=numpy.
            There is no fallback to NumPy kernels, whose results differ in rounding and which are
            several times slower.
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
    """Returns the table of the loaded library, which must exist."""
    library = load()
    assert library is not None, "nothing is compiled"
    return read_exports(library)


def limit(name: str) -> int:
    """Returns a limit of src/abi.h, as the kernels of the target have it."""
    target = other_target()
    return (exports().limits if target is None else target.limits)[name]


def machine(name: str) -> Target:
    """Returns a machine of TARGETS by its name.

    Raises:
        UnsupportedError: if no kernels are compiled here: the table of this library describes those
            of all machines.
    """
    if load() is None:
        raise UnsupportedError(
            f"target {name}: needs the compiled kernels of odt, but they are not installed. "
            "Install a C compiler, then odt again without pip's cache."
        )
    return target_of(name, exports().limits)


@cache
def instruction_sets() -> tuple[str, ...]:
    """Returns the instruction sets that this machine can run, the best one last."""
    library = load()
    if library is None:
        return ()
    library.instruction_sets.restype = ctypes.c_char_p
    return tuple(library.instruction_sets().decode().split())


def kernels_in_use() -> str:
    """Returns the instruction set of the compiled kernels of the target, or "numpy".

    Raises:
        OptionError: if this machine cannot run the kernels that ODT_KERNELS selects.
    """
    target = other_target()
    if target is not None:
        return target.kernels
    selected = os.environ.get("ODT_KERNELS", "")
    names = ("numpy", *instruction_sets())
    if selected and selected not in names:
        why = "This processor has no others" if instruction_sets() else f"{NOT_BUILT}: {REMEDY}"
        raise OptionError("ODT_KERNELS", f"must be {', '.join(names)}", selected, f"{why}.")
    return selected or names[-1]


def describe_kernels() -> str:
    """Describes the kernels in use, and why, in one line.

    Raises:
        OptionError: if this machine cannot run the kernels that ODT_KERNELS selects.
    """
    sets = instruction_sets()
    if not is_available():
        return f"NumPy kernels only: {CHOSEN if sets else REMEDY}"
    reason = f"{CHOSEN}; " if os.environ.get("ODT_KERNELS") else ""
    return f"compiled kernels: {kernels_in_use()} ({reason}this processor runs {', '.join(sets)})"


def is_available() -> bool:
    return kernels_in_use() != "numpy"


def has_threads() -> bool:
    """Whether the library can run several loops of compiled calls at the same time."""
    return is_available() and limit("MAX_THREADS") > 1


def set_threads(count: int) -> None:
    """Sets the number of cores for each call, for the whole process."""
    library = load()
    if library is not None:
        library.set_threads(count)


def run_flushed(task: Callable[[], object]) -> None:
    """Runs a task in which subnormal numbers are zero, operands and results alike, also for NumPy.

    A multiplication by one takes some hundred cycles on many processors. Without the library,
    subnormal numbers keep their values.
    """
    library = load()
    if library is None:
        task()
        return
    before = library.flush_subnormals()
    try:
        task()
    finally:
        library.restore_float_mode(before)


def lacks_bf16() -> str:
    """Returns why the kernels in use cannot multiply bfloat16; empty if they can."""
    library, kernels = load(), kernels_in_use()
    if other_target() is not None:
        return "Compiled programs compute in float32."
    if library is None or not library.has_bf16():
        return "This processor lacks AVX512_BF16, or odt was compiled without it."
    return "" if kernels == BF16_SET else f"Only the kernels {BF16_SET} have it, not {kernels}."


def compiled_of(kernel: Kernel, attrs: Attrs, specs: Specs) -> Compiled | None:
    """Returns the kernel's compiled form if it supports these specs, or None."""
    compiled = kernel.compiled
    return compiled if compiled and is_available() and compiled.fits(attrs, specs) else None
