"""odt on other Pythons and their newest packages: the demo, core tests, LiteRT's CompiledModel.

PYTHONS="python3.13 /path/to/python3.14" names the Pythons; the default is those on the PATH.
docs/devices.md says how to get newer ones. A copy of the repository is installed for each.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support.paths import ROOT
from support.peer_runtimes import run

import odt

pytestmark = pytest.mark.accept
NAMES = [f"python3.{k}" for k in range(12, 20)]
PYTHONS = os.environ.get("ODT_PYTHONS", "").split() or [n for n in NAMES if shutil.which(n)]
MISSING = "there is no newer Python. Name some: make accept ONLY=newest PYTHONS=/path/to/python3.14"
SOURCES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "Makefile")
FOLDERS = ("src", "cli", "core", "kernels", "schemas", "tests", "tools", "examples", "docs")
CORE = ("tests/core", "tests/kernels/test_native_style.py")
IGNORED = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")


@dataclass(frozen=True)
class Install:
    """odt and its test packages for another Python.

    Attributes:
        folder: the copy of the repository.
        python: Python of its environment.
    """

    folder: Path
    python: Path

    def run(self, *command: str | Path) -> str:
        """Runs a command there; returns what it printed."""
        path = f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            command,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": path, "PYTHONWARNINGS": "error::DeprecationWarning:odt"},
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
        return done.stdout


@pytest.fixture(scope="module", params=PYTHONS or [""])
def install(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Install]:
    if not request.param:
        pytest.fail(MISSING, False)
    if subprocess.run([request.param, "-c", "import ensurepip"], check=False).returncode:
        pytest.skip(f"{request.param} does not run, or has no ensurepip")
    folder = tmp_path_factory.mktemp("odt")
    for name in SOURCES:
        shutil.copy(ROOT / name, folder)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=IGNORED)
    subprocess.run([request.param, "-m", "venv", folder / ".venv"], check=True)
    other = Install(folder, folder / ".venv" / "bin" / "python")
    other.run(other.python, "-m", "pip", "install", "--quiet", "--editable", ".[test,judges]")
    print(other.run(other.python, "tools/describe_python.py"))
    yield other
    shutil.rmtree(folder)


def test_the_demo_gives_the_same_bytes(install: Install, tmp_path: Path) -> None:
    here = Install(ROOT, Path(sys.executable))
    for other, name in ((here, "here"), (install, "there")):
        other.run("sh", "examples/demo.sh", tmp_path / name, "2")
    for file in ("trained.tflite", "trained.circle"):
        assert (tmp_path / "there" / file).read_bytes() == (tmp_path / "here" / file).read_bytes()


def test_compiled_model_computes_the_export(install: Install, tmp_path: Path) -> None:
    if not install.run(install.python, "-m", "pip", "list").count("ai-edge-litert"):
        pytest.skip("ai-edge-litert has no wheel for this Python")
    install.run("sh", "examples/demo.sh", tmp_path, "1")
    x = np.fromfile(tmp_path / "test.input.bin", "<f4").reshape(-1, 28, 28, 1)[:50]
    path = tmp_path / "trained.tflite"
    (theirs,) = run("compiled-model", path, [x], 1, install.python)
    ours = np.asarray(odt.predict(path, x))
    assert np.abs(theirs.reshape(ours.shape) - ours).max() < 1e-5


def test_the_core_tests_pass(install: Install) -> None:
    print(install.run(install.python, "-m", "pytest", "-q", "-n", "2", *CORE)[-600:])
