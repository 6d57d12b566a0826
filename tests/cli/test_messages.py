"""Errors are one line of bounded length, whatever text a model holds."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from model_builder import ModelBuilder

from odt.cli.main import main
from odt.errors import MAX_MESSAGE, ModelError, OdtError, one_line

HOSTILE = "\x1b[2J\n" + "n" * 3000


def refusing(path: Path, nodes: int, name: str = "Magic") -> Path:
    """A model of custom operators between two layers."""
    model = ModelBuilder("tflite", seed=0)
    y = model.add_dense(model.add_input((1, 4)), 4)
    for _ in range(nodes):
        y = model.add_operator(f"CUSTOM:{name}", (y,), (1, 4))
        model.graph.tensors[y].name = name
    model.write(path, model.add_dense(y, 3))  # training leaves out final operators
    return path


def run(*arguments: object, verbose: bool = False) -> Result:
    environment = {"ODT_VERBOSE": "1"} if verbose else {}
    return CliRunner(env=environment).invoke(main, [*map(str, arguments)])


@pytest.mark.parametrize("name", ["Magic", HOSTILE])
def test_a_refusal_is_one_line(name: str, tmp_path: Path) -> None:
    path = refusing(tmp_path / "m.tflite", 500, name)
    result = run("train", path, "--load-input", path, "--load-expected", path)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert len(result.stderr) <= MAX_MESSAGE + len("Error: \n")
    assert "node 1 (CUSTOM:" in result.stderr
    assert result.stderr.removesuffix("\n").isprintable()


@pytest.mark.parametrize("how", ["-v", "--verbose", "ODT_VERBOSE"])
def test_details_of_a_refusal_are_printed_below_it(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "model_of_many_custom_operators.tflite"  # leaves room for one of them on the line
    refusing(Path(name), 500)
    words = () if how == "ODT_VERBOSE" else (how,)
    result = run(*words, "plan", name, verbose=not words)
    assert result.exit_code == 1
    first, *nodes, last = result.stderr.splitlines()
    assert "; and 499 more. odt -v names them. Could train: 20 parameters, in " in first
    assert len(nodes) == 500
    assert nodes[-1].startswith("  node 500 (CUSTOM:Magic)")
    assert last.endswith(f"odt cut {name} --before tensor_3 --output part.tflite.")


def test_text_of_a_model_is_shown_escaped_and_shortened(tmp_path: Path) -> None:
    model = ModelBuilder("tflite", seed=0)
    x = model.add_input((1, 4), name=HOSTILE)
    w = model.add_constant(np.ones((3, 4), np.float32), HOSTILE)
    y = model.add_operator("FULLY_CONNECTED", (x, w, -1), (1, 3))
    y = model.add_operator(f"CUSTOM:{HOSTILE}", (y,), (1, 3))
    model.add_metadata(HOSTILE, b"1")
    model.add_signature(HOSTILE, {HOSTILE: x}, {HOSTILE: y})
    model.model.description = HOSTILE
    model.write(tmp_path / "m.tflite", y)
    model.model.operator_codes.pop()
    model.graph.operators.pop()
    model.write(tmp_path / "sound.tflite", y - 1)
    mse = ("--loss", "mean-squared-error")
    for command, name in (("inspect", "m"), ("check", "m"), ("check", "sound"), ("plan", "sound")):
        result = run(command, tmp_path / f"{name}.tflite", *mse * (command != "inspect"))
        assert result.exit_code == 0, result.output
        assert max(map(len, result.output.splitlines())) < 2 * MAX_MESSAGE
        assert result.output.replace("\n", "").isprintable()


def test_the_middle_of_a_long_message_goes() -> None:
    text = "where: rule, but got " + "9" * 1000 + ". What to do."
    error = ModelError(text)
    assert len(str(error)) == MAX_MESSAGE
    assert str(error).startswith("where: rule, but got 9")
    assert str(error).endswith("9. What to do.")
    assert error.details == text
    assert OdtError("short").details == ""
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.details) == (str(error), text)


@pytest.mark.parametrize("most", [20, 80])
@pytest.mark.parametrize("text", ["", "a" * 80, "\x00" * 30, "é" * 81, "\n"])
def test_one_line_is_printable_and_short(text: str, most: int) -> None:
    found = one_line(text, most)
    assert found.isprintable()
    assert len(found) <= most
