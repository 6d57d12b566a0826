"""`odt learn`: from a folder of photos or sounds, or a table, to tested models in one command."""

import importlib.util
import shlex
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from click.testing import CliRunner, Result
from PIL import Image
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
        assert f" accuracy {accuracy:.4f} on 69 samples" in result.stdout


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


def write_table(path: Path, names: str, rows: list[str]) -> Path:
    path.write_text("\n".join([names, *rows]) + "\n")
    return path


def test_columns_that_number_the_rows_are_left_out_with_one_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    rows = [
        f"{k},{1000 - 7 * k},{rng.integers(90)},guest {k},{k * 5 % 13},{k * 5 % 13 / 2}"
        for k in range(80)
    ]
    table = write_table(tmp_path / "t.csv", "row,customer_id,count,name,size,price", rows)
    result = learn(table, "-o", tmp_path / "out", "--epochs", 2)
    assert result.exit_code == 0, result.output
    assert recipe(tmp_path / "out")["gen-datafile"]["leave-out"] == ["name", "row", "customer_id"]
    (line,) = [x for x in result.stderr.splitlines() if "number the rows" in x]
    assert line.endswith(" or have many different words are left out: name, row, customer_id.")


def test_counts_with_gaps_or_without_such_a_name_stay(tmp_path: Path) -> None:
    rows = [f"{2 * k},{k % 9},{k * 5 % 13}" for k in range(60)]
    table = write_table(tmp_path / "t.csv", "milliseconds,size,price", rows)
    assert learn(table, "-o", tmp_path / "out", "--epochs", 1).exit_code == 0
    assert "leave-out" not in recipe(tmp_path / "out")["gen-datafile"]


@pytest.mark.parametrize(("rare", "weights"), [(12, "balanced"), (40, None)])
def test_unequal_classes_get_weights(rare: int, weights: str | None, tmp_path: Path) -> None:
    """12 of one class beside 60 of another do, 40 do not; --set gives other weights."""
    rows = [f"{k % 7},{k % 5},{'rare' if k < rare else 'usual'}" for k in range(rare + 60)]
    table = write_table(tmp_path / "t.csv", "a,b,kind", rows)
    assert learn(table, "-o", tmp_path / "out", "--epochs", 1).exit_code == 0
    assert recipe(tmp_path / "out")["train"].get("class-weight") == weights
    other = ("--set", "train.class-weight=0=1,1=2")
    assert learn(table, "-o", tmp_path / "other", "--epochs", 1, *other).exit_code == 0
    assert recipe(tmp_path / "other")["train"]["class-weight"] == "0=1,1=2"


@pytest.mark.parametrize("scale", [1e-6, 1e12])
def test_very_small_and_large_targets_are_learned(scale: float, tmp_path: Path) -> None:
    """Also beside infinity, whose line is left out."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(120, 2))
    rows = [f"{a:.4f},{b:.4f},{scale * (3 + 2 * a - b):.9g}" for a, b in values]
    table = write_table(tmp_path / "t.csv", "a,b,price", [f"inf,1,{scale}", *rows])
    result = learn(table, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.stdout.splitlines() if "/model.tflite: " in line]
    assert float(line.partition("r2 ")[2].split()[0]) > 0.9


def test_a_single_column_stays_though_it_counts(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.csv", "x,y", [f"{k},{3 * k}" for k in range(60)])
    assert learn(table, "-o", tmp_path / "out", "--epochs", 1).exit_code == 0
    assert "leave-out" not in recipe(tmp_path / "out")["gen-datafile"]


def test_a_word_among_numbers_leaves_its_line_out(tmp_path: Path) -> None:
    rows = [f"{'rotary' if k == 30 else k % 8},{k % 5},{k * 7 % 31 / 2}" for k in range(90)]
    table = write_table(tmp_path / "t.csv", "cylinders,b,price", rows)
    result = learn(table, "-o", tmp_path / "out", "--epochs", 1)
    assert result.exit_code == 0, result.output
    assert "1 of 90 lines left out" in result.stderr
    assert recipe(tmp_path / "out")["gen-datafile"]["on-error"] == "skip"


def test_messages_name_options_that_learn_has(tmp_path: Path) -> None:
    rows = [f"{k % 12 + 1:02}/{k * 7 % 12 + 1:02}/2020,{k % 5},{k % 12 / 2}" for k in range(60)]
    table = write_table(tmp_path / "t.csv", "when,b,price", rows)
    out = tmp_path / "out"
    result = learn(table, "-o", out, "--epochs", 1)
    assert "--set gen-datafile.date=when=%d/%m/%Y" in result.stderr
    way = "gen-datafile.date=when=%d/%m/%Y"
    result = learn(table, "-o", out, "--epochs", 1, "--set", way)
    assert result.exit_code == 0, result.output
    assert recipe(out)["gen-datafile"]["date"] == ["when=%d/%m/%Y"]
    result = learn(table, "--target", "cost", "-o", tmp_path / "other")
    assert "--target must be one of" in result.stderr
    result = learn(table, "-o", tmp_path / "other", "--set", way, "--set", "train.learning-rate=-1")
    assert "--set train.learning-rate=VALUE: must be" in result.stderr
    assert not (tmp_path / "other").exists()


def test_a_switch_is_set_to_true_or_false(tmp_path: Path) -> None:
    words = ("-o", tmp_path / "out", "--epochs", 1, "--set", "train.keep-best=false")
    result = learn(DATA / "wine_data.csv", *words)
    assert result.exit_code == 0, result.output
    assert recipe(tmp_path / "out")["train"]["keep-best"] is False
    assert "keep-best" not in result.stderr


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


def test_a_few_files_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    """All of a class are an error."""
    pytest.importorskip("odt_models")
    for name, value in (("dark", 40), ("light", 220)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for k in range(8):
            Image.new("RGB", (16, 16), (value + k,) * 3).save(tmp_path / f"photos/{name}/{k}.png")
    (tmp_path / "photos" / "dark" / "broken.jpg").write_bytes(b"\xff\xd8")
    result = learn(tmp_path / "photos", "-o", tmp_path / "out", "--epochs", 1)
    assert result.exit_code == 0, result.output
    assert "skipped: 1\n" in result.stderr
    for path in (tmp_path / "photos" / "dark").iterdir():
        path.write_bytes(b"\xff\xd8")
    result = learn(tmp_path / "photos", "-o", tmp_path / "other", "--epochs", 1)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].endswith("the training data have none of dark. Replace "
        "these files, or leave the classes out.")  # fmt: skip
    assert not (tmp_path / "other").exists()


def test_files_outside_of_folders_get_classes_by_a_pattern(tmp_path: Path) -> None:
    pytest.importorskip("odt_models")
    photos, out = tmp_path / "photos", tmp_path / "out"
    photos.mkdir()
    for k in range(16):
        name = ("dark", "light")[k % 2]
        Image.new("RGB", (16, 16), (40 + 180 * (k % 2) + k,) * 3).save(photos / f"{name}-{k}.png")
    refused = learn(photos, "-o", out)
    assert "Name their classes with --set gen-datafile.label-pattern=VALUE.\n" in refused.stderr
    way = "gen-datafile.label-pattern=([a-z]+)"
    result = learn(photos, "-o", out, "--epochs", 1, "--set", way)
    assert result.exit_code == 0, result.output
    assert (out / "labels.txt").read_text().split() == ["dark", "light"]


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
    (tmp_path / "steps.toml").write_text(f"source = '{table}'\n[train]\nepochs = 3\n")
    (tmp_path / "same.csv").write_text("a,b\n" + "1,yes\n" * 30)
    with zipfile.ZipFile(tmp_path / "table.zip", "w") as archive:
        archive.write(table, "wine.csv")
    photos, few = tmp_path / "photos", tmp_path / "few"
    for name in ("a", "b"):
        for folder, count in ((photos, 5), (few, 5 if name == "a" else 4)):
            (folder / name).mkdir(parents=True)
            for k in range(count):
                Image.new("RGB", (8, 8)).save(folder / name / f"{k}.png")
    (tmp_path / "short.csv").write_text("a,b\n" + "1,yes\n2,no\n" * 3)
    out = tmp_path / "out"
    cases = {
        ("--config", tmp_path / "bad.toml", "-o", out): "must be a recipe of odt learn",
        ("--config", tmp_path / "steps.toml", "-o", out): "one of replace-head and new",
        (table, "-o", tmp_path / "full"): "must be a new or an empty folder",
        (table, "-o", tmp_path / "full" / "file" / "x"): "must be a folder that can be written",
        (table, "-o", tmp_path / ("x" * 300)): "must be a folder that can be written",
        (photos, "-o", photos / "out"): "must be outside of",
        (few, "-o", out): "these have fewer: b (4).",
        (tmp_path / "short.csv", "-o", out): "at least 10 rows with a target, but has 6",
        (
            tmp_path / "same.csv",
            "-o",
            out,
        ): "must have at least two classes or values, but is yes in",
        (table, "--target", "", "-o", out): "must not be empty",
        (tmp_path / "table.zip", "-o", out): "Give one of its tables",
        (table, "--base", "mobilenet", "-o", out): "must be left out for a table",
        (DATA / "trash-photos.zip", "--target", "x", "-o", out): "must be given with a table",
        (table, "--set", "epochs=3", "-o", out): "must be COMMAND.OPTION=VALUE",
        (table, "--set", "lora.rank=3", "-o", out): "must name one of the commands",
        (table, "--set", "train.rank=3", "-o", out): "No such option",
        (table, "--set", "train.export-tflite=a", "-o", out): "train.export-tflite: must be left",
        (table, "--set", "gen-datafile.output-format=npz", "-o", out): "odt learn chooses it",
        (photos, "--set", "gen-datafile.like=a", "-o", out): "gen-datafile.like: must be left out",
        (tmp_path / "none.csv", "-o", out): "none.csv: not found.",
    }
    for words, message in cases.items():
        result = learn(*words)
        assert result.exit_code, words
        assert message in result.stderr.splitlines()[-1], words
        assert isinstance(result.exception, SystemExit), words
        assert not out.exists(), words
    assert {p.name for p in photos.iterdir()} == {"a", "b"}


@pytest.mark.parametrize("is_new", [True, False])
def test_a_failed_command_leaves_the_folder_as_it_was(is_new: bool, tmp_path: Path) -> None:
    out = tmp_path / "out"
    if not is_new:
        out.mkdir()
    result = learn(DATA / "wine_data.csv", "-o", out, "--set", "train.epochs=x")
    assert result.exit_code == 2, result.output
    assert list(tmp_path.rglob("*")) == ([] if is_new else [out])


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("new", set[str]()),
        ("quantize", {"data", "log.txt", "model.tflite", "recipe.toml", "run", "start.tflite"}),
    ],
)
def test_an_interrupt_leaves_a_trained_model_or_nothing(
    command: str, files: set[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupt(ctx: click.Context) -> None:
        raise KeyboardInterrupt

    step = main.get_command(click.Context(main), command)
    assert step is not None
    monkeypatch.setattr(step, "invoke", interrupt)
    out = tmp_path / "out"
    result = learn(DATA / "wine_data.csv", "-o", out, "--epochs", 1)
    assert result.exit_code == 130, result.output
    assert "Stopped." in result.output
    assert {p.name for p in tmp_path.rglob("out/*")} == files
    assert ("keeps the trained model" in result.output) == bool(files)


def test_command_lines_are_quoted_for_the_shell(tmp_path: Path) -> None:
    out = tmp_path / "it's new"
    result = learn(DATA / "wine_data.csv", "-o", out, "--epochs", 1)
    assert result.exit_code == 0, result.output
    lines = [shlex.split(x) for x in result.stderr.splitlines() if x.startswith("odt ")]
    assert [words[1] for words in lines] == ["gen-datafile", "new", "train", "quantize", "report"]
    assert lines[-1][-1] == str(out / "report.html")
    assert str(out / "model.tflite") in shlex.split(result.stdout.splitlines()[-1])


def test_a_recipe_finds_its_base_from_other_folders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The order of tables in a recipe does not matter either."""
    for color in ("red", "blue"):
        (tmp_path / "photos" / color).mkdir(parents=True)
        for k in range(8):
            image = Image.new("RGB", (24, 24), color)
            image.putpixel((k, k), (255, 255, 255))
            image.save(tmp_path / "photos" / color / f"{k}.png")
    create_cnn = ["new", "cnn", "--input-shape", "24,24,3", "--outputs", "3", "-o", "own.tflite"]
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, create_cnn).exit_code == 0
    result = learn("photos", "--base", "own.tflite", "-o", "first", "--epochs", 1)
    assert result.exit_code == 0, result.output
    source, *tables = (tmp_path / "first" / "recipe.toml").read_text().split("\n\n")
    (tmp_path / "first" / "turned.toml").write_text("\n\n".join([source, *reversed(tables)]))
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    result = learn("--config", "../first/turned.toml", "-o", "again")
    assert result.exit_code == 0, result.output
    again = tmp_path / "other" / "again" / "model.tflite"
    assert again.read_bytes() == (tmp_path / "first" / "model.tflite").read_bytes()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "odt_models" else real(name)
    )
    result = learn(DATA / "trash-photos.zip", "-o", tmp_path / "out")
    assert result.exit_code == 1
    assert "mobilenet: is in the package odt-models, which is not installed" in result.output
