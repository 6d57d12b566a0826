"""The C files of kernels: which a program needs, and their text for it."""

import re
from collections.abc import Collection, Iterator
from functools import cache

from odt.errors import UnsupportedError
from odt.kernels.native.c_sources import PACKAGE, read_sources

# A file includes others; each_isa.h, which it includes too, includes the one that is its BODY.
INCLUDE = re.compile(r'^#(?:include|define BODY) "(\w+\.h)"', re.MULTILINE)
# A kernel is defined in a body, and an elementwise one is a line of elementwise_maps.h.
KERNEL = re.compile(r"^void F\((\w+)\)\(", re.MULTILINE)
CALL = re.compile(r"\bF\((\w+)\)\(")  # of a function, in a body
MAPS, MAPS_SOURCE = "elementwise_maps.h", "elementwise.c"
MAP = re.compile(r"^MAP\((\w+),.*?\)\n(?=MAP|\n|\Z)", re.MULTILINE | re.DOTALL)
ALWAYS = "scale"  # which elementwise.c calls itself
VOLUMES, SUMS = "HAS_VOLUMES", "HAS_SUMS"  # parts of kernels, defined as 1 in abi.h
# The name of a kernel: in full, or pasted by each_isa.h as `name##_base`. A program's name becomes
# its prefix, so that an executable can hold several programs.
BASE = re.compile(r"\b(\w+?)(##)?_base\b")


@cache
def _texts() -> dict[str, str]:
    """The C files by name.

    Raises:
        UnsupportedError: if they are not installed.
    """
    texts = read_sources()
    if not texts:
        raise UnsupportedError(
            f"{PACKAGE}: must hold the C files of the kernels. Install odt again."
        )
    return texts


def _includes(name: str) -> Iterator[str]:
    """Yields a file and all that it includes."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        file = waiting.pop()
        if file not in seen and file in _texts():
            seen.add(file)
            yield file
            waiting += INCLUDE.findall(_texts()[file])


def _needed(kernels: Collection[str]) -> set[str]:
    """Returns the C files that define kernels, and those that they call."""
    sources = {source_of(kernel) for kernel in kernels}
    texts = (_texts()[file] for source in sources for file in _includes(source))
    called = {name for text in texts for name in CALL.findall(text) if name in _sources()}
    return sources if called <= {*kernels} else _needed({*kernels, *called})


@cache
def _sources() -> dict[str, str]:
    """The C file that defines each kernel."""
    sources: dict[str, str] = {}
    for name in _texts():
        if name.endswith(".c"):
            for file in _includes(name):
                sources |= dict.fromkeys(KERNEL.findall(_texts()[file]), name)
    return sources


def source_of(kernel: str) -> str:
    """Returns the C file that defines a kernel."""
    return MAPS_SOURCE if kernel.startswith("map_") else _sources()[kernel]


def function_of(kernel: str, program: str) -> str:
    """Returns the name of the C function of a kernel in a program.

    Args:
        kernel: its name, without instruction set.
        program: prefix of the program's functions.
    """
    return f"{program}_{kernel}_base"


def kernel_files(
    kernels: Collection[str], program: str, without: Collection[str] = ()
) -> dict[str, str]:
    """Returns the text of the C files and headers that define some kernels, by name.

    Args:
        kernels: names of kernels, without instruction set.
        program: prefix of their functions.
        without: parts of kernels that the program does not need, VOLUMES or SUMS.
    """
    names = {file for source in ("float_mode.h", *_needed(kernels)) for file in _includes(source)}
    texts = {name: _texts()[name] for name in sorted(names)}
    if MAPS in texts:
        maps = {ALWAYS, *(k.removeprefix("map_") for k in kernels)}
        texts[MAPS] = MAP.sub(lambda m: m[0] if m[1] in maps else "", texts[MAPS])
    for part in without:
        define = f"#define {part} "
        texts = {file: text.replace(f"{define}1", f"{define}0") for file, text in texts.items()}
    replacement = rf"{program}_\2\1\2_base"  # group 2 is the ## of a pasted name, else empty
    texts = {file: BASE.sub(replacement, text) for file, text in texts.items()}
    return texts | {"kernels.h": _declarations(kernels, program)}


def _declarations(kernels: Collection[str], program: str) -> str:
    """Returns a header that declares the kernels of a program."""
    blocks = re.findall(r"^KERNEL\((\w+),(.*?)\)\)$", _texts()["exported.h"], re.M | re.S)
    lines = ["/* The kernels that the program calls. */", "", '#include "abi.h"', ""]
    lines += [
        f"void {function_of(name, program)}{text.strip()});"
        for name, text in blocks
        if name in kernels
    ]
    maps = sorted(k for k in kernels if k.startswith("map_"))
    lines += [f"void {function_of(k, program)} MAP_ARGUMENTS;" for k in maps]
    return "\n".join([*lines, ""])
