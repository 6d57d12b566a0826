"""Everything in tests/flower, in an environment of its own: Flower brings 70 packages."""

import subprocess
from pathlib import Path

import pytest
from support.paths import ROOT, TESTS

pytestmark = pytest.mark.accept
PYTHON = ROOT / ".venv" / "flower" / "bin" / "python"  # `make accept` makes it


@pytest.mark.parametrize("path", sorted((TESTS / "flower").glob("test_*.py")), ids=lambda p: p.stem)
def test_flower(path: Path) -> None:
    command: list[str | Path] = [PYTHON, "-m", "pytest", "-q", "-x", "-rA", "-m", "", path]
    run = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)
    print(run.stdout)  # pytest -s shows the figures
    assert run.returncode == 0, run.stdout + run.stderr
