"""Programs on emulated microcontrollers: built by gcc for ARM, run by QEMU."""

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from odt.kernels.rows.opdef import Array
from support.paths import TESTS

FOLDER = TESTS / "support" / "microcontroller"
GCC, QEMU, SIZE = "arm-none-eabi-gcc", "qemu-system-arm", "arm-none-eabi-size"
BOARDS = {
    "mps2-an386": ("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"),
    "mps2-an500": ("-mcpu=cortex-m7", "-mfpu=fpv5-d16", "-mfloat-abi=hard"),
}
ALL = 4 << 20  # bytes of RAM of the boards


class Sizes(NamedTuple):
    """Bytes of a linked program."""

    text: int
    data: int
    bss: int


def need_tools() -> None:
    """Fails if the compiler or the emulator is missing."""
    if not all(map(shutil.which, (GCC, QEMU, SIZE))):
        pytest.fail(
            f"{GCC} and {QEMU} must be installed: apt-get install gcc-arm-none-eabi "
            "libnewlib-arm-none-eabi qemu-system-arm."
        )


def compile_objects(
    sources: Sequence[Path], folder: Path, board: str, flags: Sequence[str]
) -> list[Path]:
    """Compiles C files; returns the objects in `folder`."""
    folder.mkdir(exist_ok=True)
    objects = []
    for k, source in enumerate(sources):
        objects.append(folder / f"{source.stem}_{k}.o")
        files = "-c", str(source), "-o", str(objects[-1])
        command = [GCC, "-mthumb", *BOARDS[board], "-I", str(FOLDER), *flags, *files]
        subprocess.run(command, check=True)
    return objects


def compile_start(folder: Path, board: str) -> list[Path]:
    """Compiles the start-up of the boards."""
    return compile_objects([FOLDER / "start.c"], folder / "start", board, ["-Os"])


def text_nbytes(objects: Sequence[Path]) -> int:
    """Returns the bytes of code and constants of objects."""
    lines = subprocess.check_output([SIZE, *objects], text=True).splitlines()[1:]
    return sum(int(line.split()[0]) for line in lines)


def link(objects: Sequence[Path], folder: Path, board: str, ram: int = ALL) -> tuple[Path, Sizes]:
    """Links a program for `ram` bytes of memory."""
    program = folder / "program.elf"
    options = "-nostartfiles", "--specs=nano.specs", "-T", FOLDER / "link.ld", "-Wl,--gc-sections"
    limits = f"-Wl,--defsym=RAM_SIZE={ram}", "-lm", "-o", program
    command = [GCC, "-mthumb", *BOARDS[board], *objects, *options, *limits]
    subprocess.run(list(map(str, command)), check=True)
    line = subprocess.check_output([SIZE, program], text=True).splitlines()[1]
    return program, Sizes(*map(int, line.split()[:3]))


def run(program: Path, board: str) -> dict[str, list[int]]:
    """Runs a program; returns the numbers that it prints, by name."""
    machine = "-M", board, "-nographic", "-monitor", "none", "-serial", "none"
    options = "-semihosting-config", "enable=on,target=native", "-icount", "shift=0", "-kernel"
    command = [QEMU, *machine, *options, str(program)]
    ran = subprocess.run(command, text=True, capture_output=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr
    numbers: dict[str, list[int]] = {}
    for name, number in re.findall(r"^(\w+) ([0-9a-f]{8})$", ran.stderr, re.MULTILINE):
        numbers.setdefault(name, []).append(int(number, 16))
    return numbers


def training(manifest: Mapping[str, Any], x: Array, y: Array) -> str:
    """Returns a C program that trains on each batch, and prints losses and instructions.

    Args:
        manifest: of the compiled program, of one input and one target.
        x: float32 (steps, batch, …).
        y: float32 (steps, batch, …).
    """
    name, steps = manifest["name"], len(x)
    arrays = "\n".join(
        f"static const uint32_t {word}[] = {{{', '.join(map(hex, bits_of(a)))}}};"
        for word, a in (("x", x), ("y", y))
    )
    return f"""#include "start.h"
#include "{name}.h"
{arrays}
int main(void) {{
  {name}_init();
  for (int k = 0; k < {steps}; k++) {{
    union {{ float value; uint32_t bits; }} loss;
    const float *input = (const float *)x + k * {x[0].size};
    uint32_t before = ticks();
    if ({name}_train(input, (const float *)y + k * {y[0].size}, {x.shape[1]}, &loss.value))
      return 1;
    print_number("ticks", (ticks() - before) & 0xFFFFFF);
    print_number("loss", loss.bits);
  }}
  print_number("stack", stack_used());
  return 0;
}}
"""


def bits_of(a: Array) -> list[int]:
    """Returns the bits of float32 numbers."""
    bits: list[int] = np.ascontiguousarray(a, np.float32).view(np.uint32).ravel().tolist()
    return bits
