"""Inspects a library of any platform: what it exports and needs, the oldest system it runs on."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import lief

from wheels.platforms import Platform, kernel_names

lief.logging.disable()  # it warns of each empty section

# Functions besides kernels: of every library, and of those on POSIX systems.
PROCESS = {
    *("exports", "instruction_sets", "set_threads", "has_bf16", "use_bf16_pairs"),
    *("flush_subnormals", "restore_float_mode"),
}
POSIX = {"watch_mapped", "forget_mapped"}
# Libraries that every system of a kind has.
SYSTEM = {
    "manylinux": r"lib(c|m|pthread)\.so\.\d",
    "musllinux": r"libc\.so",
    "win": r"KERNEL32\.dll|api-ms-win-crt-\w+-l1-1-0\.dll",
    "macosx": r"_kernels\.so|/usr/lib/libSystem\.B\.dylib",
}
# End of a tag → names of the processor in the file formats.
MACHINES = {
    "x86_64": {"X86_64"},
    "amd64": {"AMD64"},
    "aarch64": {"AARCH64"},
    "arm64": {"ARM64"},
    "armv7l": {"ARM"},
    "riscv64": {"RISCV"},
}


def inspect_library(path: Path, platform: Platform) -> tuple[str, list[str]]:
    """Returns what a library needs, in one line, and all its faults."""
    binary = lief.parse(str(path))
    kind = re.match("[a-z]+", platform.tag)
    assert kind, platform.tag
    library = KINDS[kind[0]](binary, platform)
    expected = kernel_names(platform.sets) | PROCESS | (set() if kind[0] == "win" else POSIX)
    faults = [*library.faults, *(f"lacks {name}" for name in sorted(expected - library.exports))]
    faults += [f"needs {n}" for n in library.needs if not re.fullmatch(SYSTEM[kind[0]], n)]
    architecture = next(a for a in MACHINES if platform.tag.endswith(a))
    if library.machine not in MACHINES[architecture]:
        faults.append(f"is for {library.machine}, not {architecture}")
    systems = ", ".join(Path(n).name for n in library.needs if n != "_kernels.so")
    return f"{len(library.exports & expected)} exports; {library.oldest}; {systems}", faults


class Library(NamedTuple):
    """Facts of a library.

    Attributes:
        exports: names of the exported functions.
        needs: names of the libraries that it loads.
        machine: processor, as the file format names it.
        oldest: oldest system that it runs on.
        faults: what is wrong with it.
    """

    exports: set[str]
    needs: list[str]
    machine: str
    oldest: str
    faults: list[str]


def _elf(binary: Any, platform: Platform) -> Library:
    exported = {str(s.name) for s in binary.exported_symbols}
    required = [
        str(symbol.name)
        for requirement in binary.symbols_version_requirement
        for symbol in requirement.get_auxiliary_symbols()
    ]
    versions = [tuple(map(int, v.removeprefix("GLIBC_").split("."))) for v in required]
    newest = max(versions, default=(0,))
    wrong = ["has a symbol table: it is not stripped"] if binary.has_section(".symtab") else []
    promised = re.match(r"manylinux_(\d+)_(\d+)", platform.tag)
    if promised and newest > (int(promised[1]), int(promised[2])):
        wrong.append(f"needs GLIBC {newest}, newer than its tag")
    oldest = f"GLIBC {'.'.join(map(str, newest))}" if versions else "musl"
    machine = str(binary.header.machine_type).rpartition(".")[2]
    return Library(exported, [str(n) for n in binary.libraries], machine, oldest, wrong)


def _pe(binary: Any, platform: Platform) -> Library:
    exported = {str(e.name) for e in binary.get_export().entries}
    machine = str(binary.header.machine).rpartition(".")[2]
    return Library(exported, [str(i.name) for i in binary.imports], machine, "UCRT", [])


def _mach_o(binary: Any, platform: Platform) -> Library:
    exported = {str(s.name).removeprefix("_") for s in binary.exported_symbols}
    minimum = tuple(binary.build_version.minos[:2])
    promised = tuple(map(int, platform.tag.split("_")[1:3]))
    wrong = [] if minimum == promised else [f"is for macOS {minimum}, not {promised}"]
    if platform.tag.endswith("arm64") and not binary.has_code_signature:
        wrong.append("is not signed, which Apple's processors demand")
    machine = str(binary.header.cpu_type).rpartition(".")[2]
    needed = [str(library.name) for library in binary.libraries]
    return Library(exported, needed, machine, f"macOS {minimum[0]}.{minimum[1]}", wrong)


KINDS = {"manylinux": _elf, "musllinux": _elf, "win": _pe, "macosx": _mach_o}
