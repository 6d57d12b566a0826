"""The platforms that get a wheel, and the options of zig's C compiler for each."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from odt.kernels.native.library import BF16_SET

SOURCES = Path(__file__).parents[2] / "kernels" / "native" / "src"


@dataclass(frozen=True)
class Platform:
    """One platform.

    Attributes:
        tag: platform tag of the wheel, as in PEP 425, 600 and 656.
        target: zig's name of the platform, with the oldest glibc or macOS after a dot.
        sets: instruction sets that the kernels are compiled for.
        flags: further options of the compiler.
    """

    tag: str
    target: str
    sets: tuple[str, ...] = ("base",)
    flags: tuple[str, ...] = ()

    @property
    def library(self) -> str:
        """The name of the library, which is loaded by every Python of the platform."""
        return "_kernels.pyd" if self.tag.startswith("win") else "_kernels.so"

    @property
    def wheel_tags(self) -> list[str]:
        """The tags of the wheel; a platform may have several."""
        return [f"py3-none-{tag}" for tag in self.tag.split(".")]


X86 = ("base", "avx2", "avx512")
# ARMv7 as Debian and Raspberry Pi OS require it; kernels for NEON are compiled too.
ARMV7 = ("-mcpu=generic+v7a+vfp3d16-neon",)
# Instructions in an order that suits in-order processors; others reorder them.
IN_ORDER = ("-Xclang", "-tune-cpu", "-Xclang", "cortex-a55")
SONAME = ("-Wl,-install_name,_kernels.so",)  # else the path of the build

PLATFORMS = (
    Platform("manylinux_2_17_x86_64.manylinux2014_x86_64", "x86_64-linux-gnu.2.17", X86),
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
    Platform("musllinux_1_2_x86_64", "x86_64-linux-musl", X86),
    Platform("musllinux_1_2_aarch64", "aarch64-linux-musl", flags=IN_ORDER),
    Platform("win_amd64", "x86_64-windows-gnu", X86),
    Platform("win_arm64", "aarch64-windows-gnu"),
    Platform("macosx_11_0_x86_64", "x86_64-macos.11.0", X86, SONAME),
    Platform("macosx_11_0_arm64", "aarch64-macos.11.0", flags=SONAME),
)


def kernel_names(sets: Iterable[str]) -> set[str]:
    """The kernels that a library must export for some instruction sets."""
    listed = (SOURCES / "exported.h").read_text(encoding="utf-8")
    names = set(re.findall(r"^KERNEL\((\w+)", listed, re.MULTILINE))
    maps = (SOURCES / "elementwise_maps.h").read_text(encoding="utf-8")
    names |= {f"map_{name}" for name in re.findall(r"^MAP\((\w+)", maps, re.MULTILINE)}
    every = {f"{name}_{instructions}" for name in names for instructions in sets}
    return {n for n in every if "_bf16_" not in n or n.endswith(BF16_SET)}
