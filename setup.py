"""Builds the compiled kernels; pyproject.toml describes the package.

The wheel has the C files and the pages of odt docs in one compressed file each.

The kernels are optional: without a C compiler, NumPy does their work.
"""

import os
import runpy
import sys
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import LinkError

SOURCES = "kernels/native/src"
KERNELS = Extension(
    "odt.kernels.native._kernels",
    sources=sorted(glob(f"{SOURCES}/*.c")),
    depends=sorted(glob(f"{SOURCES}/*.h")),
    extra_compile_args=[
        *("-std=gnu11", "-O3", "-g0", "-pthread"),
        *("-fno-math-errno", "-fno-trapping-math", "-fno-asynchronous-unwind-tables"),
    ],
    extra_link_args=["-pthread", "-lm", "-s"],
    optional=True,
)

# Scripts that know the texts which the wheel has in a compressed file, and its folder.
PACKED = {"cli/pages.py": "odt", "kernels/native/c_sources.py": "odt/kernels/native"}
MEMORY_OF_COMPILER = 2 << 30  # gcc takes 0.65 GB; boards with 2 GB run one


class BuildExt(build_ext):
    """Compiles sources side by side; links functions of one instruction set side by side."""

    def build_extensions(self) -> None:
        """Builds the kernels with as many compilers as there are cores and memory for."""
        if os.name == "posix":
            memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            jobs = max(1, min(os.cpu_count() or 1, memory // MEMORY_OF_COMPILER))
            compile_all = self.compiler.compile

            def compile_side_by_side(sources: list[str], **options: Any) -> list[str]:
                with ThreadPoolExecutor(jobs) as pool:
                    objects = pool.map(lambda source: compile_all([source], **options), sources)
                    return [path for of_one in objects for path in of_one]

            self.compiler.compile = compile_side_by_side
        super().build_extensions()

    def build_extension(self, extension: Extension) -> None:
        """Compiles and links the kernels, without the script if the linker has none."""
        if sys.platform == "linux":
            compile_args, link_args = extension.extra_compile_args, extension.extra_link_args
            extension.extra_compile_args = [*compile_args, "-ffunction-sections"]
            extension.extra_link_args = [*link_args, f"-Wl,-T,{SOURCES}/sections.ld"]
            try:
                return super().build_extension(extension)
            except LinkError:  # a linker without such scripts
                extension.extra_compile_args = compile_args
                extension.extra_link_args = link_args
        return super().build_extension(extension)


class BuildPy(build_py):
    """Writes the pages of the documentation and the C files beside the modules, compressed."""

    def run(self) -> None:
        """Copies the modules and packs texts; an editable installation reads them as they are."""
        super().run()
        if not self.editable_mode:
            for script, folder in PACKED.items():
                texts = runpy.run_path(script)
                path = Path(self.build_lib, folder, texts["ARCHIVE"])
                path.write_bytes(texts["archive_of"](Path()))


if __name__ == "__main__":
    setup(
        ext_modules=[KERNELS] if KERNELS.sources else [],
        cmdclass={"build_ext": BuildExt, "build_py": BuildPy},
    )
