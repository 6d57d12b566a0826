"""Kernels compiled from C: used where the package was built with a compiler, and never needed.

`ODT_KERNELS=numpy` leaves them out; `avx512`, `avx2` and `base` choose an instruction set.
"""

import ctypes
import os
from collections.abc import Callable
from functools import cache, partial
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from odt.errors import OptionError
from odt.kernels.opdef import Array, Attrs, Compiled, Kernel, Specs

SETS = ("base", "avx2", "avx512")
NOT_BUILT = "No kernels were compiled when odt was installed"
REMEDY = "install with a C compiler for faster training"


@cache
def _library() -> ctypes.CDLL | None:
    folder = Path(__file__).parent
    for suffix in EXTENSION_SUFFIXES:
        path = folder / f"_kernels{suffix}"
        if path.exists():
            return ctypes.CDLL(str(path))
    return None


@cache
def _sets() -> tuple[str, ...]:
    """What this machine can run, the best last; nothing without a library."""
    library = _library()
    return SETS[: library.instruction_set() + 1] if library else ()


def kind() -> str:
    """The instruction set of the compiled kernels in use, or "numpy".

    Raises:
        OptionError: if ODT_KERNELS names what this machine cannot run.
    """
    asked = os.environ.get("ODT_KERNELS", "")
    known = ("numpy", *_sets())
    if asked and asked not in known:
        why = "This processor has no others" if _sets() else f"{NOT_BUILT}: {REMEDY}"
        raise OptionError(f"ODT_KERNELS: must be {', '.join(known)}, but got {asked}. {why}.")
    return asked or known[-1]


def description() -> str:
    """What computes, in a line.

    Raises:
        OptionError: if ODT_KERNELS names what this machine cannot run.
    """
    if is_available():
        return f"compiled kernels: {kind()}"
    return f"NumPy kernels only: {'ODT_KERNELS says so' if _sets() else REMEDY}"


def is_available() -> bool:
    return kind() != "numpy"


def set_threads(count: int) -> None:
    """How many cores share a call, from now on and for the whole process."""
    library = _library()
    if library is not None:
        library.set_threads(count)


def watch_mapped(memory: Array) -> ctypes.c_int | None:
    """Fills holes in mapped memory with zeros, should its file become shorter while it is read.

    Args:
        memory: of the whole map, as bytes.

    Returns:
        What is 1 once there was a hole; None where nothing watches, and a hole ends the process.
    """
    library = _library()
    if library is None or os.name == "nt":
        return None
    library.watch_mapped.restype = ctypes.c_void_p
    at = library.watch_mapped(ctypes.c_void_p(memory.ctypes.data), ctypes.c_int64(memory.nbytes))
    return ctypes.c_int.from_address(at) if at else None


def forget_mapped(mark: ctypes.c_int) -> None:
    """Ends the watch; to be called before the memory is unmapped."""
    library = _library()
    assert library is not None, "there is a mark"
    library.forget_mapped(ctypes.byref(mark))


def compiled_of(kernel: Kernel, attrs: Attrs, specs: Specs) -> Compiled | None:
    """The kernel's compiled form, if there is one that can be used for these specs."""
    compiled = kernel.compiled
    return compiled if compiled and is_available() and compiled.fits(attrs, specs) else None


class Walk(ctypes.Structure):
    """How windows of images are read and where results go, as in walk.h; strides in elements."""

    _fields_ = [
        *(
            (name, ctypes.c_int64)
            for name in (
                *("images", "rows", "cols", "depth", "units"),
                *("image_stride", "row_stride", "col_stride", "height", "width"),
                *("start_h", "step_h", "start_w", "step_w"),
                *("out_start", "out_image", "out_row", "out_col"),
                *("depth_stride", "unit_stride", "taps_h", "taps_w"),
            )
        ),
        *(
            (name, ctypes.c_void_p)
            for name in ("row_taps", "row_weights", "col_taps", "col_weights")
        ),
    ]

    def __init__(
        self, row_taps: list[tuple[int, int]], col_taps: list[tuple[int, int]], **sizes: int
    ) -> None:
        """Takes the sizes, and for each tap of an axis its offset and that of its weights."""
        self.lists = [
            (ctypes.c_int64 * len(taps))(*(t[k] for t in taps))
            for taps in (row_taps, col_taps)
            for k in (0, 1)
        ]
        pointers = (ctypes.addressof(a) for a in self.lists)
        names = ("row_taps", "row_weights", "col_taps", "col_weights")
        super().__init__(
            taps_h=len(row_taps),
            taps_w=len(col_taps),
            **sizes,
            **dict(zip(names, pointers, strict=True)),
        )


def argument(a: Any) -> Any:
    """What a compiled function takes for it; keeps arrays alive."""
    if a is None:
        return ctypes.c_void_p(None)
    if isinstance(a, ctypes.Structure):
        return ctypes.pointer(a)
    if isinstance(a, float):
        return ctypes.c_float(a)
    if isinstance(a, int):
        return ctypes.c_int64(a)
    assert a.flags.c_contiguous, "a compiled kernel reads whole arrays"
    pointer = ctypes.c_void_p(a.ctypes.data)
    pointer.owner = a  # type: ignore[attr-defined]  # lives as long as what points to it
    return pointer


def function(name: str) -> Callable[..., None]:
    """A compiled function for the instruction set in use."""
    found: Callable[..., None] = getattr(_library(), f"{name}_{kind()}")
    found.restype = None  # type: ignore[attr-defined]  # ctypes' own
    return found


def bind(name: str, *arguments: Any) -> Callable[[], None]:
    """A call of a compiled function on arguments that are resolved now.

    Args:
        name: of the function, without its instruction set.
        arguments: contiguous arrays, None, numbers, a structure.
    """
    return partial(function(name), *map(argument, arguments))
