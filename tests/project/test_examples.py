"""Every script in examples/ runs as its first lines say, with one epoch, and trains a model."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import ROOT

from odt.core.formats.reader import read_model

MAKE_MODEL = ("odt", "new", "cnn", "--input-shape", "28,28,1", "--outputs", "10", "-o")
PYTHON = sorted(p.name for p in (ROOT / "examples").glob("*.py"))
SHELL = sorted(p.name for p in (ROOT / "examples").glob("*.sh") if p.name != "demo.sh")


PERSONALIZE = sorted(p.name for p in (ROOT / "examples/personalize").glob("*.py"))


def run(*arguments: str | Path) -> str:
    """Runs a command in the project's folder where this Python and its odt come first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        arguments,
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        text=True,
        capture_output=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("name", SHELL)
def test_shell_example(name: str, tmp_path: Path) -> None:
    printed = run("sh", f"examples/{name}", tmp_path, "1")
    assert float(printed.splitlines()[-1].rpartition(" ")[2]) > 0.5, "the accuracy on test data"
    read_model(str(tmp_path / "trained.tflite"))


def test_federated_example(tmp_path: Path) -> None:
    run("sh", "examples/federated/federate.sh", tmp_path, "1")
    assert (tmp_path / "app" / "server_app.py").exists()
    read_model(str(tmp_path / "trained.tflite"))


@pytest.mark.parametrize("name", PYTHON)
def test_python_example(name: str, tmp_path: Path) -> None:
    source, target = tmp_path / "model.tflite", tmp_path / "trained.tflite"
    run(*MAKE_MODEL, source, "--seed", "1")
    run("python", f"examples/{name}", source, target, "1")
    before, after = (read_model(str(path)).graph for path in (source, target))
    changed = [
        k
        for k, (a, b) in enumerate(zip(before.tensors, after.tensors, strict=True))
        if a.data is not None and b.data is not None and (a.data != b.data).any()
    ]
    assert len(changed) == 8, "all weights train"


@pytest.mark.parametrize("name", PERSONALIZE)
def test_personalization_example(name: str, tmp_path: Path) -> None:
    source, target = tmp_path / "seven.tflite", tmp_path / "personal.tflite"
    run(*MAKE_MODEL[:-2], "7", "-o", source, "--seed", "1")
    printed = run("python", f"examples/personalize/{name}", source, target, "1")
    assert float(printed.splitlines()[-1].rpartition(" ")[2]) > 0.65, "the accuracy of ten classes"
    graph = read_model(str(target)).graph
    assert graph.tensors[graph.outputs[0]].spec.shape == (1, 10)


@pytest.mark.parametrize("name", [*PYTHON, *(f"personalize/{name}" for name in PERSONALIZE)])
def test_python_example_without_arguments_prints_its_usage(name: str) -> None:
    command = sys.executable, f"examples/{name}"
    result = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)
    assert result.returncode == 1
    assert "Usage, in the project's folder:" in result.stderr
    assert "Traceback" not in result.stderr
