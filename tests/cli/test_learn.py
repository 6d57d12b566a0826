"""`odt learn`: from a folder of photos or sounds, or a table, to tested models in one command."""

import importlib.util
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from click.testing import CliRunner, Result
from support.paths import ROOT

from odt.cli.main import main

DATA = ROOT / "examples" / "data"
FILES = {
    "data", "labels.txt", "log.txt", "model-int8.tflite", "model.tflite", "recipe.toml",
    "report.html", "run", "start.tflite",
}  # fmt: skip


def learn(*words: object) -> Result:
    return CliRunner().invoke(main, ["learn", *map(str, words)])


def litert_accuracy(model: Path, files: Path) -> float:
    interpreter = Interpreter(str(model))
    interpreter.allocate_tensors()
    (details,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    x = np.fromfile(files / "test.input.bin", np.float32).reshape(-1, *details["shape"])
    y = np.fromfile(files / "test.output.bin", np.float32).reshape(len(x), -1)
    right = 0
    for sample, target in zip(x, y, strict=True):
        interpreter.set_tensor(details["index"], sample)
        interpreter.invoke()
        right += int(interpreter.get_tensor(result["index"])[0].argmax() == target.argmax())
    return right / len(x)


def recipe(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "recipe.toml").read_text(encoding="utf-8"))


def test_a_table_becomes_a_float_and_an_int8_model(tmp_path: Path) -> None:
    """Penguins: columns of words, missing values, and a target that is not the last column."""
    out = tmp_path / "out"
    result = learn(DATA / "penguins.csv", "--target", "species", "-o", out, "--epochs", 60)
    assert result.exit_code == 0, result.output
    assert {p.name for p in out.iterdir()} == FILES
    assert (out / "labels.txt").read_text().split() == ["Adelie", "Chinstrap", "Gentoo"]
    assert f"Use it: odt predict {out}/model.tflite --source NEW\n" in result.stdout
    chosen = recipe(out)
    assert chosen["gen-datafile"]["one-hot"] == ["island", "sex"]
    assert chosen["train"]["epochs"] == 60
    for name in ("model.tflite", "model-int8.tflite"):
        accuracy = litert_accuracy(out / name, out / "data")
        assert accuracy >= 0.9
        assert f"{name}: " in result.stdout
        assert f"categorical_accuracy {accuracy:.4f} on 69 samples" in result.stdout


def test_a_recipe_repeats_a_run(tmp_path: Path) -> None:
    first, again, other = (tmp_path / name for name in ("first", "again", "other"))
    assert learn(DATA / "wine_data.csv", "-o", first, "--epochs", 3).exit_code == 0
    assert learn("--config", first / "recipe.toml", "-o", again).exit_code == 0
    for name in ("model.tflite", "model-int8.tflite", "labels.txt"):
        assert (again / name).read_bytes() == (first / name).read_bytes()
    changes = ("--set", "train.epochs=2", "--set", "new.hidden=8", "--seed", 5)
    assert learn("--config", first / "recipe.toml", "-o", other, *changes).exit_code == 0
    changed = recipe(other)
    assert (changed["train"]["epochs"], changed["new"]["hidden"]) == (2, 8)
    assert {changed[name]["seed"] for name in ("gen-datafile", "new", "train")} == {5}
    assert len((other / "run" / "log.csv").read_text().splitlines()) == 1 + 3  # with epoch 0


def test_whole_numbers_with_many_values_are_a_regression(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 100, (300, 3))
    price = (200 + x @ [2, -1, 0.5]).round()
    rows = "\n".join(",".join(f"{v:g}" for v in (*a, p)) for a, p in zip(x, price, strict=True))
    (tmp_path / "prices.csv").write_text(f"size,age,floor,price\n{rows}\n")
    result = learn(tmp_path / "prices.csv", "--target", "price", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    values = [float(line.split("r2 ")[1].split()[0]) for line in result.stdout.splitlines()[:2]]
    assert min(values) > 0.97
    assert not (tmp_path / "out" / "labels.txt").exists()


def test_photos_get_a_new_head_on_the_mobilenet(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = learn(DATA / "trash-photos.zip", "-o", out, "--epochs", 8)
    assert result.exit_code == 0, result.output
    accuracies = [float(x.split("accuracy ")[1].split()[0]) for x in result.stdout.splitlines()[:2]]
    assert accuracies[0] >= 0.75
    assert accuracies[1] >= accuracies[0] - 0.05
    new = CliRunner().invoke(
        main, ["predict", str(out / "model.tflite"), "--source", str(DATA / "trash-photos.zip")]
    )
    assert "cardboard" in new.output


def test_sounds_get_a_new_head_on_the_keyword_network(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = learn(DATA / "yes-no-sounds.zip", "-o", out, "--epochs", 20)
    assert result.exit_code == 0, result.output
    assert float(result.stdout.split("accuracy ")[1].split()[0]) >= 0.9
    assert recipe(out)["gen-datafile"]["split"] == ["train", "validation=0.15", "test"]


def test_what_cannot_be_learned_is_one_line(tmp_path: Path) -> None:
    table = DATA / "wine_data.csv"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "bad.toml").write_text("epochs = 3\n")
    out = tmp_path / "out"
    cases = {
        ("--config", tmp_path / "bad.toml", "-o", out): "must be a recipe of odt learn",
        (table, "-o", tmp_path / "full"): "must be a new or an empty folder",
        (table, "--base", "mobilenet", "-o", out): "must be left out for a table",
        (DATA / "trash-photos.zip", "--target", "x", "-o", out): "must be given with a table",
        (table, "--set", "epochs=3", "-o", out): "must be COMMAND.OPTION=VALUE",
        (table, "--set", "lora.rank=3", "-o", out): "must name one of the commands",
        (table, "--set", "train.rank=3", "-o", out): "No such option",
        (tmp_path / "none.csv", "-o", out): "no such file or directory",
    }
    for words, message in cases.items():
        result = learn(*words)
        assert result.exit_code, words
        assert message in result.output
        assert "Traceback" not in result.output
        assert not out.exists(), words


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "odt_models" else real(name)
    )
    result = learn(DATA / "trash-photos.zip", "-o", tmp_path / "out")
    assert result.exit_code == 1
    assert "mobilenet: is in the package odt-models, which is not installed" in result.output
