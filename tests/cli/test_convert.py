"""`odt convert` writes a model in the other format."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.paths import GOLDEN, MODELS

from odt.cli.main import main

CIRCLE = GOLDEN / "mnist" / "model.circle"
SINE = MODELS / "tflm-hello-world-sine-float.tflite"


def run(source: Path, output: Path) -> Result:
    return CliRunner().invoke(main, ["convert", str(source), str(output)])


def test_a_tflite_model_becomes_circle_and_tflite_again(tmp_path: Path) -> None:
    there, back = tmp_path / "m.circle", tmp_path / "m.tflite"
    result = run(SINE, there)
    assert result.output == f"{SINE} (tflite) is now {there} (circle)\n"
    before, after = SINE.read_bytes(), there.read_bytes()
    assert (before[4:8], after[4:8]) == (b"TFL3", b"CIR0")
    assert before[:4] + before[8:] == after[:4] + after[8:]
    assert run(there, back).exit_code == 0
    assert back.read_bytes() == SINE.read_bytes()


def test_an_extension_in_capitals_is_accepted(tmp_path: Path) -> None:
    output = tmp_path / "M.CIRCLE"
    assert run(CIRCLE, output).exit_code == 0
    assert output.read_bytes() == CIRCLE.read_bytes()


@pytest.mark.parametrize("name", ["m.bin", "m"])
def test_another_extension_is_refused(name: str, tmp_path: Path) -> None:
    result = run(CIRCLE, tmp_path / name)
    assert result.exit_code == 1
    assert "must end in .circle or .tflite" in result.stderr
    assert not list(tmp_path.iterdir())
