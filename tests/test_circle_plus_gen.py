"""`odt circle-plus-gen` as circle_plus_gen: what it prints, and which file it writes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from odt.cli.main import main

PARENT = Path(__file__).parent
MLP = PARENT / "golden/mlp_sm/model.circle"  # three operators
TFLITE = PARENT / "models/tflm-hello-world-sine-float.tflite"
RECIPE: dict[str, Any] = {
    "optimizer": {"type": "adam", "args": {"learningRate": 0.01, "beta1": 0.5}},
    "loss": {
        "type": "categorical crossentropy",
        "args": {"fromLogits": False, "reduction": "sum"},
    },
    "batchSize": 16,
    "fineTuning": 2,
}


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["circle-plus-gen", *map(str, words)])


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(RECIPE))
    return path


def test_a_model_without_training_info_says_so() -> None:
    result = run(MLP)
    assert (result.exit_code, result.output) == (0, "No hyperparameters\n")


def test_output_is_written_and_input_left_alone(tmp_path: Path, recipe: Path) -> None:
    output = tmp_path / "plus.circle"
    before = MLP.read_bytes()
    result = run(MLP, recipe, output)
    assert result.exit_code == 0
    first, *dump, last = result.output.splitlines()
    assert first == "succesfully add hyperparameters to the circle file"
    assert last == f"saved in {output}"
    assert json.loads("\n".join(dump)) == RECIPE
    assert MLP.read_bytes() == before
    assert json.loads(run(output).output) == RECIPE


def test_without_output_the_input_is_overwritten(tmp_path: Path, recipe: Path) -> None:
    model = tmp_path / "model.circle"
    shutil.copy(MLP, model)
    assert run(model, recipe).output.endswith(f"saved in {model}\n")
    assert json.loads(run(model).output) == RECIPE


def test_a_tflite_file_becomes_a_circle_plus_under_another_name(
    tmp_path: Path, recipe: Path
) -> None:
    model, output = tmp_path / "model.tflite", tmp_path / "plus.circle"
    shutil.copy(TFLITE, model)
    refused = run(model, recipe)
    assert refused.exit_code == 1
    assert refused.stderr.endswith("but got tflite. Give an OUTPUT.\n")
    assert model.read_bytes() == TFLITE.read_bytes()
    assert run(model, recipe, output).exit_code == 0
    assert output.read_bytes()[4:8] == b"CIR0"


def test_a_bad_recipe_is_one_line_and_writes_nothing(tmp_path: Path) -> None:
    recipe, output = tmp_path / "recipe.json", tmp_path / "plus.circle"
    recipe.write_text(json.dumps({**RECIPE, "fineFuning": 1}))
    result = run(MLP, recipe, output)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "Did you mean fineTuning?" in result.stderr
    assert not output.exists()
