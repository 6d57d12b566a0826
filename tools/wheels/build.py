"""Builds the wheels of all platforms on one Linux machine; make wheels runs it.

The kernels are loaded by ctypes and use no Python header, so one wheel for a platform serves every
Python. zig's C compiler, from PyPI, compiles them for each platform. The other files come from the
wheel that setuptools makes without kernels, and equal those of the repository byte for byte. The
same sources and versions of Python, zig and setuptools give the same bytes in any folder.
"""

import runpy
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # tools/

from wheels.archives import differences, package_files, packed_files, read_wheel, write_wheel
from wheels.inspection import inspect_library
from wheels.platforms import PLATFORMS, SOURCES, Platform

ROOT = Path(__file__).parents[2]
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
FOLDER = "odt/kernels/native"  # folder of the library in a wheel
MAX_BYTES = 3_000_000  # of a wheel
# Options besides those of setup.py. zig would add a sanitizer.
OPTIONS = ("-fPIC", "-fno-sanitize=undefined", "-Wno-pass-failed")
LINKING = ("-shared", "-s", "-Wl,--build-id=none")
ZIG = (sys.executable, "-m", "ziglang")
QUIET = "-Wno-unused-command-line-argument"


@dataclass(frozen=True)
class BuiltWheel:
    """A wheel that was built.

    Attributes:
        wheel: path.
        library: bytes of its library.
        needs: what the library needs, in words.
        faults: faults of the library.
    """

    wheel: Path
    library: int
    needs: str
    faults: Sequence[str]


def settings() -> Any:
    """Returns the settings of setuptools in pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["tool"]["setuptools"]


def files_without_kernels(folder: Path) -> dict[str, bytes]:
    """The files of the wheel that setuptools makes of a copy of the package, without kernels.

    The copy has no C sources, so that setuptools compiles nothing; they are packed afterwards.
    """
    tree, out = folder / "tree", folder / "pure"
    tree.mkdir()
    for name in FILES:
        shutil.copy(ROOT / name, tree)
    for place in (*settings()["package-dir"].values(), "docs"):
        ignore = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd", "*.c", "*.h")
        shutil.copytree(ROOT / place, tree / place, ignore=ignore)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, tree)
    (wheel,) = out.glob("*-py3-none-any.whl")
    headers = {n: p.read_bytes() for n, p in package_files().items() if p.suffix == ".h"}
    return read_wheel(wheel) | headers | packed_files()


def compile_library(platform: Platform, folder: Path) -> Path:
    """Compiles the library of a platform; returns its path."""
    kernels = runpy.run_path(str(ROOT / "setup.py"))["KERNELS"]
    path = folder / platform.tag / platform.library
    path.parent.mkdir()
    compiler = (*ZIG, "cc", "-target", platform.target, QUIET)
    options = (*kernels.extra_compile_args, *OPTIONS, *platform.flags)
    sources = sorted(SOURCES.glob("*.c"))
    for source in sources:  # in its folder: paths of the build stay out of the library
        output = path.with_name(f"{source.stem}.o")
        run(*compiler, *options, "-c", source.name, "-o", output, cwd=source.parent)
    objects = [f"{p.stem}.o" for p in sources]
    linking = (*options, *LINKING, *kernels.extra_link_args)
    run(*compiler, *linking, "-o", path.name, *objects, cwd=path.parent)
    return path


def build_wheel(tag: str, files: Mapping[str, bytes], folder: Path, out: Path) -> BuiltWheel:
    """Builds and inspects the wheel of a platform, or the one without kernels for `any`."""
    if tag == "any":
        wheel = write_wheel(files, ["py3-none-any"], out)
        return BuiltWheel(wheel, 0, "NumPy kernels only", ())
    platform = next(p for p in PLATFORMS if p.tag == tag)
    library = compile_library(platform, folder)
    data = library.read_bytes()
    members = {**files, f"{FOLDER}/{platform.library}": data}
    wheel = write_wheel(members, platform.wheel_tags, out)
    needs, faults = inspect_library(library, platform)
    return BuiltWheel(wheel, len(data), needs, faults)


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Runs a command, which prints only if it fails."""
    done = subprocess.run(
        command, cwd=cwd, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise click.ClickException(f"{' '.join(map(str, command))}\n{done.stdout}")


@click.command()
@click.option(
    "--out", default="dist", type=click.Path(path_type=Path), help="Folder of the wheels."
)
@click.option("--only", multiple=True, help="Platform tag, or any; all if left out.")
def main(out: Path, only: tuple[str, ...]) -> None:
    """Builds wheels, inspects them and prints a table."""
    tags = ["any", *(p.tag for p in PLATFORMS)]
    unknown = [tag for tag in only if tag not in tags]
    if unknown:
        raise click.ClickException(f"--only: must be of {', '.join(tags)}, but got {unknown[0]}")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, ProcessPoolExecutor() as pool:
        folder = Path(name)
        files = files_without_kernels(folder)
        build = partial(build_wheel, files=files, folder=folder, out=out)
        wheels = list(pool.map(build, only or tags))
    faults: list[str] = []
    for result in wheels:
        size = result.wheel.stat().st_size
        faults += [f"{result.wheel.name}: {what}" for what in differences(result.wheel)]
        click.echo(f"{size:>8,} {result.library:>8,}  {result.wheel.name}: {result.needs}")
        faults += [f"{result.wheel.name}: {what}" for what in result.faults]
        if size > MAX_BYTES:
            faults.append(f"{result.wheel.name}: must be at most {MAX_BYTES:,} bytes")
    run(sys.executable, "-m", "twine", "check", "--strict", *(result.wheel for result in wheels))
    if faults:
        raise click.ClickException("\n".join(faults))


if __name__ == "__main__":
    main()
