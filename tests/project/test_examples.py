"""Every script in examples/ runs as its first lines say, with one epoch, and trains a model."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import ROOT

from odt.core.model.reader import read_model

SHELL = sorted(p.name for p in (ROOT / "examples").glob("*.sh") if p.name != "demo.sh")


def run(*arguments: str | Path) -> str:
    """Runs a command in the project's folder where this Python and its odt come first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        arguments, cwd=ROOT, env={**os.environ, "PATH": path}, text=True, capture_output=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("name", SHELL)
def test_shell_example(name: str, tmp_path: Path) -> None:
    printed = run("sh", f"examples/{name}", tmp_path, "1")
    assert float(printed.splitlines()[-1].rpartition(" ")[2]) > 0.5, "the accuracy on test data"
    read_model(str(tmp_path / "trained.tflite"))
