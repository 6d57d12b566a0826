"""Wheels as archives whose bytes depend on their content alone."""

import base64
import csv
import hashlib
import io
import runpy
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from wheels.platforms import SOURCES

ROOT = Path(__file__).parents[2]
TIME = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can hold
REGULAR, EXECUTABLE = 0o100644, 0o100755
LIBRARIES = (".so", ".pyd")
# Of the package's files.
SUFFIXES = {".py", ".pyi", ".fbs", ".in", ".c", ".h", ".js", ".css", ".ts"}


def read_wheel(path: Path) -> dict[str, bytes]:
    """The files of a wheel by name, without RECORD and a list that only old tools read."""
    left_out = ".dist-info/RECORD", ".dist-info/top_level.txt", "/"
    with zipfile.ZipFile(path) as wheel:
        return {n: wheel.read(n) for n in wheel.namelist() if not n.endswith(left_out)}


def package_files() -> dict[str, Path]:
    """The files of the package in the repository, except packed ones, by their names in a wheel."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    files = {}
    for package, folder in pyproject["tool"]["setuptools"]["package-dir"].items():
        for path in sorted((ROOT / folder).rglob("*")):
            if path.parent != SOURCES and (path.suffix in SUFFIXES or path.name == "py.typed"):
                relative = path.relative_to(ROOT / folder).as_posix()
                files[f"{package.replace('.', '/')}/{relative}"] = path
    return files


def packed_files() -> dict[str, bytes]:
    """The compressed files that hold the pages and the C files, by their names in a wheel."""
    files = {}
    for script, folder in runpy.run_path(str(ROOT / "setup.py"))["PACKED"].items():
        texts = runpy.run_path(str(ROOT / script))
        files[f"{folder}/{texts['ARCHIVE']}"] = texts["archive_of"](ROOT)
    return files


def expected_files() -> dict[str, bytes]:
    """The files of a wheel that the repository determines: modules, data and packed texts."""
    return {name: path.read_bytes() for name, path in package_files().items()} | packed_files()


def differences(wheel: Path) -> list[str]:
    """What differs between the files of a wheel and those of the repository, byte for byte.

    Compiled kernels and the wheel's own information are not compared.
    """
    files = expected_files()
    in_wheel = {
        name: data
        for name, data in read_wheel(wheel).items()
        if ".dist-info/" not in name and not name.endswith(LIBRARIES)
    }
    faults = [f"lacks {name}" for name in files if name not in in_wheel]
    faults += [
        f"has {name}, which the repository does not have" for name in in_wheel if name not in files
    ]
    return faults + [
        f"{name} is not that of the repository"
        for name, data in files.items()
        if name in in_wheel and in_wheel[name] != data
    ]


def wheel_text(tags: Sequence[str], is_pure: bool) -> bytes:
    """The file WHEEL."""
    lines = ["Wheel-Version: 1.0", "Generator: odt tools/wheels"]
    lines += [f"Root-Is-Purelib: {str(is_pure).lower()}", *(f"Tag: {tag}" for tag in tags)]
    return ("\n".join(lines) + "\n").encode()


def write_wheel(files: Mapping[str, bytes], tags: Sequence[str], folder: Path) -> Path:
    """Writes a wheel; the same files give the same bytes.

    Args:
        files: by name, one of them *.dist-info/METADATA; RECORD and WHEEL are made here.
        tags: such as py3-none-any.
        folder: folder of the wheel.
    """
    info = next(n for n in files if n.endswith(".dist-info/METADATA")).partition("/")[0]
    is_pure = not any(name.endswith(LIBRARIES) for name in files)
    files = {**files, f"{info}/WHEEL": wheel_text(tags, is_pure)}
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    # Metadata come last, where installers find them fastest.
    for name in sorted(files, key=lambda n: (n.startswith(info), n)):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=")
        rows.writerow((name, f"sha256={digest.decode()}", len(files[name])))
    rows.writerow((f"{info}/RECORD", "", ""))
    python, abi, _ = tags[0].split("-")
    platforms = ".".join(tag.split("-")[2] for tag in tags)
    path = folder / f"{info.removesuffix('.dist-info')}-{python}-{abi}-{platforms}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for line in record.getvalue().splitlines():
            name = line.partition(",")[0]
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, which has modes
            mode = EXECUTABLE if name.endswith(LIBRARIES) else REGULAR
            entry.external_attr = mode << 16
            wheel.writestr(entry, files.get(name, record.getvalue().encode()))
    return path
