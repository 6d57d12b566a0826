"""The wheels of all platforms: reproducible, and right where the processor can be emulated."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.paths import FOLDERS, ROOT
from wheels.platforms import PLATFORMS

pytestmark = pytest.mark.accept
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")


def built(folder: Path, umask: int) -> Path:
    """The wheels that a copy of the sources makes."""
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    for place in (*FOLDERS.values(), "tools/wheels"):
        ignore = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / place, folder / place, ignore=ignore)
    subprocess.run(
        [sys.executable, folder / "tools/wheels/build.py", "--out", folder / "dist"],
        check=True,
        umask=umask,
    )
    return folder / "dist"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheels"), 0o022)


def test_another_folder_and_umask_give_the_same_bytes(
    dist: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    again = built(tmp_path_factory.mktemp("wheels in another folder"), 0o077)
    first, second = ({p.name: p.read_bytes() for p in d.iterdir()} for d in (dist, again))
    assert len(first) == len(PLATFORMS) + 1
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def test_the_wheel_of_this_machine_uses_the_kernels_that_gcc_built(
    dist: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*command, "--target", tmp_path, "--find-links", dist, "odt"], check=True)
    libraries = Path(np.__file__).parents[1]
    versions = []
    for paths in (f"{tmp_path}{os.pathsep}{libraries}", ""):
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": paths}
        version = [sys.executable, "-m", "odt", "--version"]
        versions.append(subprocess.check_output(version, env=env, cwd=tmp_path.parent, text=True))
    assert "compiled kernels: " in versions[0]
    assert versions[0] == versions[1]
    paths = f"{tmp_path}{os.pathsep}{libraries}"
    tests = ("tests/kernels/test_compiled.py", "tests/judges/test_golden.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": paths}
    subprocess.run(command, env=env, cwd=ROOT, check=True)


def test_the_kernels_of_the_windows_wheel_are_right_under_wine(dist: Path) -> None:
    tool = ROOT / "tools/wheels/windows.py"
    subprocess.run([sys.executable, tool, "--dist", dist], check=True)


EMULATED = [
    pytest.param(arch, cpu, options, id=f"{arch} {cpu}".strip())
    for arch, cpu, *options in (
        ("aarch64", "", "--all"),
        ("aarch64", "cortex-a72"),  # without dot products of bytes
        ("armv7l", "", "--all"),
        ("armv7l", "cortex-a9,neon=off"),
        ("x86_64", "", "--all"),
        ("riscv64", ""),
    )
]


@pytest.mark.parametrize(("arch", "cpu", "options"), EMULATED)
def test_losses_and_operators_are_right_on_an_emulated_processor(
    arch: str, cpu: str, options: list[str], dist: Path
) -> None:
    tool = ROOT / "tools/wheels/emulate.py"
    subprocess.run([sys.executable, tool, arch, "--dist", dist, "--cpu", cpu, *options], check=True)
