"""odt check names the signature with which a model trains."""

from pathlib import Path

from click.testing import CliRunner
from support.subgraphs import WIDTH, Subgraphs

from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.core.recipe.other_signatures import fitting_signature


def two_signatures(path: Path, second: str) -> Path:
    """Writes a first subgraph that odt cannot compute, and a layer."""
    model = Subgraphs("tflite")
    x = model.add_input((1, WIDTH))
    y = model.add_operator("CUSTOM:unknown", (x,), (1, WIDTH))
    number = model.subgraph(model.step)
    inner = model.model.subgraphs[number]
    model.add_signature("loss", {"x": x}, {"y": y})
    model.add_signature(second, {"x": inner.inputs[0]}, {"y": inner.outputs[0]})
    model.model.signature_defs[1].subgraph_index = number
    model.write(path, y)
    return path


def test_check_names_a_signature_that_trains(tmp_path: Path) -> None:
    path = two_signatures(tmp_path / "m.tflite", "predict")
    result = CliRunner().invoke(main, ["check", str(path)])
    assert result.exit_code == 1
    assert "could train: with --signature predict\n" in result.output
    more = ["--signature", "predict", "--loss", "mean-squared-error"]
    result = CliRunner().invoke(main, ["check", str(path), *more])
    assert result.exit_code == 0, result.output


def test_steps_of_tensorflows_training_are_not_named(tmp_path: Path) -> None:
    path = two_signatures(tmp_path / "m.tflite", "train")
    assert fitting_signature(read_model(path)) is None
