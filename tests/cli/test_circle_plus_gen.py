"""`odt circle-plus-gen` as circle_plus_gen: what it prints, and which file it writes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.paths import MLP_SM, MODELS

from odt.cli.main import main

MLP = MLP_SM / "model.circle"  # three operators
TFLITE = MODELS / "tflm-hello-world-sine-float.tflite"
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


def test_a_model_without_training_info_is_described_as_such() -> None:
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
    recipe.write_text(json.dumps({**RECIPE, "finTuning": 1}))
    result = run(MLP, recipe, output)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "Did you mean fineTuning?" in result.stderr
    assert not output.exists()


def test_the_misspelled_word_of_ones_example_is_read_with_a_warning(tmp_path: Path) -> None:
    recipe = tmp_path / "train_tparam.json"
    words = {name: value for name, value in RECIPE.items() if name != "fineTuning"}
    recipe.write_text(json.dumps({**words, "fineFuning": 2}))
    result = run(MLP, recipe, tmp_path / "plus.circle")
    assert result.exit_code == 0
    assert result.stderr == f"Warning: {recipe}: fineFuning is read as fineTuning\n"
    assert json.loads(run(tmp_path / "plus.circle").output) == RECIPE


def test_options_are_equivalent_to_json(tmp_path: Path) -> None:
    output = tmp_path / "plus.circle"
    line = "--optimizer adam --learning-rate 0.001 --loss mean-squared-error --batch-size 8"
    result = run(MLP, output, *line.split(), "--num-of-trainable-ops", "-1")
    assert result.exit_code == 0, result.stderr
    assert result.output.startswith("succesfully add hyperparameters to the circle file\n{")
    assert json.loads(run(output).output) == {
        "optimizer": {
            "type": "adam",
            "args": {"learningRate": 0.001, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-07},
        },
        "loss": {"type": "mean squared error", "args": {"reduction": "sum over batch size"}},
        "batchSize": 8,
        "fineTuning": 0,
    }


def test_options_count_more_than_json_and_json_more_than_the_file(
    tmp_path: Path, recipe: Path
) -> None:
    output = tmp_path / "plus.circle"
    assert run(MLP, recipe, output, "--batch-size", "4").exit_code == 0
    read = json.loads(run(output).output)
    assert (read["batchSize"], read["fineTuning"]) == (4, 2)
    assert read["optimizer"]["args"]["beta1"] == 0.5
    assert run(output, "--num-of-trainable-ops", "0").exit_code == 0
    read = json.loads(run(output).output)
    assert (read["batchSize"], read["fineTuning"]) == (4, -1)
    before = recipe.read_bytes()
    model = tmp_path / "model.circle"
    shutil.copy(MLP, model)
    assert run(model, recipe, "--optimizer", "sgd").exit_code == 0
    assert recipe.read_bytes() == before
    read = json.loads(run(model).output)
    assert read["optimizer"] == {"type": "sgd", "args": {"learningRate": 0.01}}


def test_a_final_softmax_determines_the_loss(tmp_path: Path) -> None:
    output = tmp_path / "plus.circle"
    assert run(MLP, output, "--batch-size", "4").exit_code == 0
    loss = json.loads(run(output).output)["loss"]
    args = {"fromLogits": False, "reduction": "sum over batch size"}
    assert loss == {"type": "categorical crossentropy", "args": args}


def test_removing_gives_the_file_back(tmp_path: Path, recipe: Path) -> None:
    plus, plain = tmp_path / "plus.circle", tmp_path / "plain.circle"
    run(MLP, recipe, plus)
    assert run(plus, plain, "--remove").exit_code == 0
    assert plain.read_bytes() == MLP.read_bytes()
    assert json.loads(run(plus).output) == RECIPE
    result = run(plus, "--remove")
    assert result.output == f"removed hyperparameters; saved in {plus}\n"
    assert plus.read_bytes() == MLP.read_bytes()


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--remove", "--batch-size", "3"], "--remove: must be given with INPUT and OUTPUT only"),
        (["a", "b", "--remove"], "--remove: must be given with INPUT and OUTPUT only"),
        (["--optimizer", "adamw"], "but got adamw"),
        (
            ["--optimizer", "sgd", "--momentum", "0.9"],
            "--momentum: must be left out for a",
        ),
        (["--optimizer", "sgd", "--beta-1", "0.9"], "sgd has no such value"),
        (["--num-of-trainable-ops", "4"], "must be at most 3"),
        (["--learning-rate", "0"], "above 0"),
    ],
)
def test_options_that_cannot_be_write_nothing(words: list[str], rule: str, tmp_path: Path) -> None:
    model = tmp_path / "model.circle"
    shutil.copy(MLP, model)
    result = run(model, *words)
    assert (result.exit_code, rule in result.stderr) == (1, True), result.stderr
    assert result.stderr.count("\n") == 1
    assert model.read_bytes() == MLP.read_bytes()
