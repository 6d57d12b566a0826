"""The wheel and the source distribution hold the package, whole and alone, and it runs."""

import bz2
import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
from support.base_packages import BASE
from support.paths import FOLDERS, ROOT
from wheels.archives import differences, expected_files, write_wheel

MAX_INSTALLED = 8_000_000  # bytes
MAX_WHEEL = 3_000_000  # bytes: a promise in megabytes, beside 17 MB of NumPy
FILES = ["pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"]
SOURCES = "odt/kernels/native/sources.json.bz2"  # C files
INFO = "odt-0.1.0.dist-info/METADATA"
METADATA = b"Metadata-Version: 2.1\nName: odt\nVersion: 0.1.0\n"
MUST_NOT_SHIP = {"tests", "tools", "examples", "typings"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution and the wheel that was built from it."""
    tree = tmp_path_factory.mktemp("tree")
    for name in FILES:
        shutil.copy(ROOT / name, tree)
    for folder in (*FOLDERS.values(), "docs"):
        ignore = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / folder, tree / folder, ignore=ignore)
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, tree],
        check=True,
        capture_output=True,
    )
    return out


def wheel_of(dist: Path) -> Path:
    (wheel,) = dist.glob("odt-*.whl")
    return wheel


def test_the_wheel_holds_the_files_of_the_repository_byte_for_byte(dist: Path) -> None:
    assert not differences(wheel_of(dist))
    with zipfile.ZipFile(wheel_of(dist)) as wheel:
        names = wheel.namelist()
        sources = json.loads(bz2.decompress(wheel.read(SOURCES)))
    assert sources == {p.name: p.read_text() for p in ROOT.glob("kernels/native/src/*.[ch]")}
    compiled = [n for n in names if n.startswith("odt/kernels/native/_kernels.")]
    assert len(compiled) == any(map(shutil.which, ("cc", "gcc")))
    assert any(n.endswith("licenses/LICENSE") for n in names)


def test_a_changed_file_of_a_wheel_is_named(tmp_path: Path) -> None:
    files = expected_files()
    changed = {**files, "odt/errors.py": b"VALUE = 3\n", "odt/more.py": b"", INFO: METADATA}
    del changed["odt/py.typed"]
    assert differences(write_wheel(changed, ["py3-none-any"], tmp_path)) == [
        "lacks odt/py.typed",
        "has odt/more.py, which the repository does not have",
        "odt/errors.py is not that of the repository",
    ]


def test_a_wheel_takes_at_most_3_mb(dist: Path) -> None:
    assert wheel_of(dist).stat().st_size <= MAX_WHEEL


def test_an_installation_takes_at_most_8_mb_beside_numpy(dist: Path) -> None:
    """Counted as the files named in RECORD, without .pyc."""
    with zipfile.ZipFile(wheel_of(dist)) as wheel:
        sizes = [entry.file_size for entry in wheel.infolist()]
    for name in BASE - {"odt", "numpy"}:
        for file in distribution(name).files or ():
            path = Path(str(file.locate()))
            if file.suffix != ".pyc" and path.is_file():
                sizes.append(path.stat().st_size)
    assert sum(sizes) <= MAX_INSTALLED


def test_the_source_distribution_ships_no_tests(dist: Path) -> None:
    (archive,) = dist.glob("odt-*.tar.gz")
    with tarfile.open(archive) as tar:
        tops = {PurePosixPath(n).parts[1] for n in tar.getnames() if "/" in n}
    assert tops >= {"cli", "core", "kernels", "schemas", "src", "LICENSE", "pyproject.toml"}
    assert not tops & MUST_NOT_SHIP


def test_the_wheel_runs_where_nothing_else_is(dist: Path, tmp_path: Path) -> None:
    """A fresh environment: the wheel, and the libraries it names, from where they are."""
    venv.create(tmp_path, symlinks=True, with_pip=False)
    python = tmp_path / "bin/python"
    subprocess.run(
        [sys.executable, "-m", "pip", f"--python={python}", "install", "--no-deps", "--no-index",
         "--quiet", wheel_of(dist)],
        check=True,
    )  # fmt: skip
    libraries = Path(np.__file__).parents[1]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(libraries)}

    def output(*args: str | Path) -> str:
        return subprocess.check_output(args, env=env, text=True, cwd=tmp_path)

    where = output(python, "-c", "import odt; print(odt.__file__)")
    assert Path(where).is_relative_to(tmp_path), "the test runs the checkout, not the wheel"
    assert output(tmp_path / "bin/odt", "--version").startswith("odt ")
    page = subprocess.check_output([sys.executable, "-m", "odt", "docs", "photos"], text=True)
    assert output(python, "-m", "odt", "docs", "photos") == page
    source = "from odt.core.emit.kernel_files import source_of; print(source_of('correlate'))"
    assert output(python, "-c", source) == "convolution.c\n"
    for command in ([], ["train"], ["quantize"]):
        here = subprocess.check_output([sys.executable, "-m", "odt", *command, "--help"], text=True)
        there = output(python, "-m", "odt", *command, "--help")
        assert there.split("\n\n", 1)[1] == here.split("\n\n", 1)[1]
