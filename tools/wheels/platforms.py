"""The platforms that get a wheel, and how zig's C compiler is told of each."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "kernels" / "native" / "src"


@dataclass(frozen=True)
class Platform:
    """One platform.

    Attributes:
        tag: platform tag of the wheel, as in PEP 425, 600 and 656.
        target: zig's name; behind a dot the oldest glibc or macOS.
        sets: instruction sets that the kernels are compiled for.
        flags: more options of the compiler, for all files.
        more_sources: files beside the kernels.
        has_runtime: whether the runtime libraries of the compiler and of C are linked.
    """

    tag: str
    target: str
    sets: tuple[str, ...] = ("base",)
    flags: tuple[str, ...] = ()
    more_sources: tuple[Path, ...] = ()
    has_runtime: bool = True

    def options(self, source: Path) -> tuple[str, ...]:
        """The compiler's options for a file of the kernels."""
        return (*self.flags, "-Os") if self.sets == X86 and source.name in SMALL else self.flags

    @property
    def library(self) -> str:
        """The name of the library, which is loaded by every Python of the platform."""
        return "_kernels.pyd" if self.tag.startswith("win") else "_kernels.so"

    @property
    def wheel_tags(self) -> list[str]:
        return [f"py3-none-{tag}" for tag in self.tag.split(".")]


X86 = ("base", "avx2", "avx512")
# Loops over vectors neither interleaved nor unrolled unless the source says so, as by gcc: this
# shortens the kernels of three instruction sets by a quarter.
SHORT = (
    *("-mllvm", "-force-vector-interleave=1"),
    *("-mllvm", "-unroll-runtime=false"),
)
# Without functions that were not asked to be inlined, loops that were not asked to be unrolled or
# vectorized (IVDEP), frame pointers and alignment a wheel is up to 58 kB smaller, and steps take
# 0.97 to 1.05 of the time with gcc's kernels.
SHORTER = (
    *(*SHORT, "-fno-inline-functions", "-fno-unroll-loops"),
    *("-fno-vectorize", "-mllvm", "-enable-epilogue-vectorization=false"),
    *("-fomit-frame-pointer", "-falign-loops=1", "-falign-functions=1"),
)
# Files that take 1.8 kB less of a wheel with -Os, and whose kernels are as fast with it; those of
# others are larger (vectorized loops) or slower (recurrent.c with AVX2).
SMALL = frozenset({
    *("batch_matmul.c", "bitmask.c", "convolution.c", "dense.c", "depthwise.c", "pool.c"),
    *("instruction_sets.c", "mapped_files.c", "module.c", "team.c", "transpose.c"),
})  # fmt: skip
# ARMv7 as Debian and Raspberry Pi OS have it; NEON is compiled beside it.
ARMV7 = (*SHORTER, "-mcpu=generic+v7a+vfp3d16-neon")
# Instructions in an order that suits in-order processors; others reorder them.
IN_ORDER = ("-Xclang", "-tune-cpu", "-Xclang", "cortex-a55")
STACK_PROBE = (Path(__file__).with_name("stack_probe.c"),)
SONAME = ("-Wl,-install_name,_kernels.so",)  # else the path of the build

PLATFORMS = (
    Platform("manylinux_2_17_x86_64.manylinux2014_x86_64", "x86_64-linux-gnu.2.17", X86, SHORTER),
    Platform(
        "manylinux_2_17_aarch64.manylinux2014_aarch64", "aarch64-linux-gnu.2.17", flags=IN_ORDER
    ),
    Platform(
        "manylinux_2_17_armv7l.manylinux2014_armv7l",
        "arm-linux-gnueabihf.2.17",
        ("base", "neon"),
        ARMV7,
    ),
    Platform("manylinux_2_31_riscv64", "riscv64-linux-gnu.2.31"),
    Platform("musllinux_1_2_x86_64", "x86_64-linux-musl", X86, SHORTER),
    Platform("musllinux_1_2_aarch64", "aarch64-linux-musl", flags=IN_ORDER),
    Platform("win_amd64", "x86_64-windows-gnu", X86, SHORTER, STACK_PROBE, has_runtime=False),
    Platform("win_arm64", "aarch64-windows-gnu"),
    Platform("macosx_11_0_x86_64", "x86_64-macos.11.0", X86, (*SHORTER, *SONAME)),
    Platform("macosx_11_0_arm64", "aarch64-macos.11.0", flags=SONAME),
)


def kernel_names(sets: Iterable[str]) -> set[str]:
    """The kernels that a library must export for some instruction sets."""
    listed = (SOURCES / "exported.h").read_text(encoding="utf-8")
    names = set(re.findall(r"^KERNEL\((\w+)", listed, re.MULTILINE))
    maps = (SOURCES / "elementwise_maps.h").read_text(encoding="utf-8")
    names |= {f"map_{name}" for name in re.findall(r"^MAP\((\w+)", maps, re.MULTILINE)}
    return {f"{name}_{which}" for name in names for which in sets}
