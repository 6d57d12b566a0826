"""Builds C programs by several compilers, for several processors, and runs them."""

import atexit
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

from odt.core.emit.project import flags
from support.c_programs import NO_VOLUMES, kernel_sources, shared_kernels

STRICT = ("-Wall", "-Wextra", "-Werror")
ZIG = (sys.executable, "-m", "ziglang", "cc", "-fno-sanitize=undefined")
# What programs need of a C library, for targets that have none, or none that zig brings.
HEADERS = {
    "string.h": """#include <stddef.h>
void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memset(void *to, int value, size_t size);
int memcmp(const void *a, const void *b, size_t size);
""",
    "math.h": """#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
float copysignf(float x, float y), fabsf(float x), fmodf(float x, float y), logf(float x);
float sqrtf(float x);
double cos(double x), floor(double x), fmod(double x, double y), pow(double x, double y);
double rint(double x), sin(double x), sqrt(double x);
""",
}


@dataclass(frozen=True)
class Compiler:
    """A compiler for a processor.

    Attributes:
        command: the compiler, with the options that choose the processor.
        emulator: runs programs of another processor; empty for those of this one.
    """

    command: tuple[str, ...]
    emulator: str = ""


COMPILERS = {
    "gcc": Compiler(("gcc",)),
    "clang": Compiler((*ZIG, "-target", "x86_64-linux-gnu")),
    "sanitizers": Compiler(("gcc", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover")),
    "aarch64": Compiler((*ZIG, "-target", "aarch64-linux-musl"), "qemu-aarch64-static"),
    "armv7": Compiler(
        (*ZIG, "-target", "arm-linux-musleabihf", "-mcpu=cortex_a9"), "qemu-arm-static"
    ),
    "riscv64": Compiler((*ZIG, "-target", "riscv64-linux-musl"), "qemu-riscv64-static"),
}
# Processors for which programs are compiled, and not run.
TARGETS = {
    "wasm32": ("wasm32-freestanding",),
    "cortex-m0+": ("thumb-freestanding-eabi", "-mcpu=cortex_m0plus"),
    "cortex-m4f": ("thumb-freestanding-eabihf", "-mcpu=cortex_m4"),
    "cortex-m7": ("thumb-freestanding-eabihf", "-mcpu=cortex_m7"),
    "cortex-m55": ("thumb-freestanding-eabihf", "-mcpu=cortex_m55"),
    "riscv32": ("riscv32-freestanding", "-mcpu=generic_rv32+m+f"),
    "android": ("aarch64-linux-android",),
    "ios": ("aarch64-ios",),
}


def command(*words: str | Path) -> str:
    """Runs a command; returns what it prints."""
    done = subprocess.run([*words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


@cache
def kernels_by(compiler: str) -> Sequence[Path]:
    """Returns the objects of all kernels, compiled once by a compiler."""
    folder = Path(mkdtemp(prefix=f"odt-{compiler}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    words = COMPILERS[compiler].command
    with ThreadPoolExecutor() as threads:
        return [
            *threads.map(
                lambda source: compiled(source, words, folder, NO_VOLUMES), kernel_sources()
            )
        ]


def compiled(source: Path, compiler: Sequence[str], folder: Path, *options: str) -> Path:
    """Compiles a C file with the options of generated programs; warnings are errors."""
    out = folder / f"{source.stem}.o"
    words = *compiler, *flags("generic"), *STRICT, *options, "-I", str(source.parent)
    command(*words, "-c", source, "-o", out)
    return out


def for_target(sources: Iterable[Path], target: str, folder: Path) -> list[Path]:
    """Compiles C files for one of TARGETS; returns the objects."""
    for name, text in HEADERS.items():
        (folder / name).write_text(text)
    words = *ZIG, "-target", *TARGETS[target]

    def for_one(source: Path) -> Path:
        return compiled(source, words, folder, "-I", str(folder))

    with ThreadPoolExecutor() as threads:
        return [*threads.map(for_one, sources)]


def program(folder: Path, compiler: str) -> Path:
    """Builds the program of a folder with the function `main` of `driver`."""
    manifest = json.loads((folder / "manifest.json").read_text())
    objects = Path(mkdtemp(dir=folder, prefix=compiler))
    main = objects / "main.c"
    main.write_text(driver(manifest))
    sources = main, *sorted(folder.glob(f"{manifest['name']}*.c"))
    static = ["-static"] if COMPILERS[compiler].emulator else []
    words = *COMPILERS[compiler].command, *flags("generic"), *STRICT, *static, "-I", str(folder)
    out = objects / "program"
    shared = shared_kernels(manifest)
    command(*words, *shared, "-o", out, *sources, *kernels_by(compiler), "-lm")
    return out


def run(program: Path, compiler: str, batches: Path, out: Path) -> list[float]:
    """Trains on the batches of a file; returns the losses, and writes the model file to `out`."""
    emulator = COMPILERS[compiler].emulator
    if emulator and shutil.which(emulator) is None:
        raise AssertionError(f"{emulator}: must be installed. apt-get install qemu-user-static")
    lines = command(*([emulator] if emulator else []), program, batches, out).split()
    return [float(np.float32(float.fromhex(line))) for line in lines]


def driver(manifest: Mapping[str, Any]) -> str:
    """Returns a program that trains on batches from a file.

    It prints the loss of each batch. Half-way it saves its state, begins anew and loads the state.
    At the end it writes the model file.
    """
    name, upper = manifest["name"], manifest["name"].upper()
    arrays = [
        (f"{word}_{k}", int(np.prod(a["shape"])) * np.dtype(a["type"]).itemsize)
        for word in ("input", "target")
        for k, a in enumerate(manifest[f"{word}s"])
    ]
    declared = "\n".join(f"static _Alignas(64) char {a}[{size}];" for a, size in arrays)
    reads = " &&\n      ".join(f"fread({a}, sizeof {a}, 1, batches) == 1" for a, _ in arrays)
    operands = ", ".join(f"(void *){a}" for a, _ in arrays)
    return f"""#include <stdio.h>

#include "{name}.h"

{declared}
static char state[{upper}_STATE_SIZE], other[{upper}_STATE_SIZE];

static int write_part(void *file, const void *bytes, size_t size) {{
  return fwrite(bytes, 1, size, file) != size;
}}

int main(int count, char **arguments) {{
  float loss;
  if (count != 3) return 1;
  if ({name}_save(state) != {upper}_NOT_READY) return 2;
  FILE *batches = fopen(arguments[1], "rb");
  if (!batches) return 3;
  fseek(batches, 0, SEEK_END);
  long middle = ftell(batches) / 2;
  rewind(batches);
  {name}_init();
  while ({reads}) {{
    if ({name}_train({operands}, {upper}_BATCH, &loss) != {upper}_OK) return 4;
    printf("%a\\n", (double)loss);
    if (ftell(batches) != middle) continue;
    if ({name}_save(state) != {upper}_OK) return 5;
    {name}_init();
    if ({name}_load(other) != {upper}_NO_STATE) return 6;
    if ({name}_load(state) != {upper}_OK) return 7;
  }}
  FILE *file = fopen(arguments[2], "wb");
  if (!file || {name}_export(write_part, file) != {upper}_OK || fclose(file)) return 8;
  return 0;
}}
"""
