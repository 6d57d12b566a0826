"""--data: a folder of odt gen-datafile instead of the files of inputs and expected outputs."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
from support.datafiles import made, odt

RECORDS = "a,b,kind\n" + "".join(f"{k},{k % 7},{'xy'[k % 2]}\n" for k in range(60))
SPLITS = ("--split", "train=0.6", "--split", "validation=0.2", "--split", "test=0.2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("folder")
    (path / "table.csv").write_text(RECORDS)
    made("--source", path / "table.csv", *SPLITS, "--out-dir", path / "data")
    assert odt("new", "mlp", "--like", path / "data", "-o", path / "m.tflite").exit_code == 0
    return path


def files(folder: Path, part: str, prefix: str = "load") -> list[object]:
    data = folder / "data"
    return [f"--{prefix}-input", data / f"{part}.input.bin",
            f"--{prefix}-expected", data / f"{part}.output.bin"]  # fmt: skip


def test_training_takes_the_parts_train_and_validation(folder: Path, tmp_path: Path) -> None:
    one, two = (tmp_path / f"{k}.tflite" for k in "12")
    word = ("train", folder / "m.tflite", "--epochs", 2, "--keep-best")
    run = tmp_path / "run"
    by_folder = odt(*word, "--data", folder / "data", "--export-tflite", one, "--run-dir", run)
    by_files = odt(
        *word, *files(folder, "train"), *files(folder, "validation", "validation"),
        "--export-tflite", two,
    )  # fmt: skip
    assert (by_folder.exit_code, by_files.exit_code) == (0, 0), by_folder.output
    assert one.read_bytes() == two.read_bytes()
    recipe = tomllib.loads((run / "recipe.toml").read_text())
    assert recipe["validation-input"] == str(folder / "data" / "validation.input.bin")


def test_a_validation_split_replaces_the_part_validation(folder: Path) -> None:
    result = odt(
        "train", folder / "m.tflite", "--data", folder / "data", "--validation-split", 0.5,
        "--epochs", 1, "--print-config",
    )  # fmt: skip
    assert "validation-split = 0.5" in result.stdout
    assert "validation-input" not in result.stdout


@pytest.mark.parametrize(
    ("command", "part"),
    [
        (("eval",), "test"),
        (("check",), "train"),
    ],
)
def test_commands_print_the_same_as_with_files(
    command: tuple[str, ...], part: str, folder: Path
) -> None:
    by_folder = odt(*command, folder / "m.tflite", "--data", folder / "data")
    by_files = odt(*command, folder / "m.tflite", *files(folder, part))
    assert by_folder.exit_code == 0, by_folder.output
    assert without_measurements(by_folder.output) == without_measurements(by_files.output)


def without_measurements(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("The process takes about")]


@pytest.mark.parametrize("command", ["predict", "verify"])
def test_commands_without_targets_read_the_part_test(command: str, folder: Path) -> None:
    words = (command, *[folder / "m.tflite"] * (2 if command == "verify" else 1))
    by_folder = odt(*words, "--data", folder / "data")
    assert by_folder.exit_code == 0, by_folder.output
    assert by_folder.output == odt(*words, *files(folder, "test")[:2]).output
    if command == "predict":
        assert len(by_folder.stdout.splitlines()) == 12


def test_quantize_calibrates_with_the_part_train(folder: Path, tmp_path: Path) -> None:
    one, two = (tmp_path / f"{k}.tflite" for k in "12")
    calibrate = ("--calibrate", folder / "data" / "train.input.bin")
    assert odt("quantize", folder / "m.tflite", "--data", folder / "data", "-o", one).exit_code == 0
    assert odt("quantize", folder / "m.tflite", *calibrate, "-o", two).exit_code == 0
    assert one.read_bytes() == two.read_bytes()


def test_what_does_not_fit_is_one_line(folder: Path, tmp_path: Path) -> None:
    data, model = folder / "data", folder / "m.tflite"
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "test.input.bin").touch()
    (tmp_path / "two").mkdir()
    for name in ("train.input.bin", "train.input.npy", "train.output.bin"):
        (tmp_path / "two" / name).touch()
    cases = {
        ("train", model, "--data", tmp_path / "none"): "must be a folder, but is none",
        ("train", model, "--data", tmp_path / "half"): "train.input… of odt gen-datafile, but has "
        "files of the parts: test.",
        ("train", model, "--data", tmp_path / "two"): "must hold one file train.input…",
        ("train", model, "--data", data, *files(folder, "train")): "without --load-input",
        ("eval", model, "--data", data, "--source", data): "without --source",
        ("quantize", model, "--data", data, "--calibrate", data): "without --calibrate",
        ("eval", model, data): "Data are given by --data",
    }
    for words, message in cases.items():
        result = odt(*words)
        assert result.exit_code in (1, 2), words
        assert message in result.stderr, words


def test_the_end_of_a_training_names_files_and_the_next_command(
    folder: Path, tmp_path: Path
) -> None:
    out, run = tmp_path / "t.tflite", tmp_path / "run"
    words = ("--data", folder / "data", "--epochs", 2, "--export-tflite", out, "--run-dir", run)
    result = odt("train", folder / "m.tflite", *words)
    assert "- Epoch" not in result.stdout
    last = result.stdout.splitlines()[-4:]
    assert last == [
        f"{out}: {out.stat().st_size / 1000:,.0f} kB",
        f"{run}: model, checkpoints and log of the run",
        f"Report: odt report {run}",
        f"Evaluate: odt eval {out} --data {folder / 'data'}",
    ]
    assert odt("eval", out, "--data", folder / "data").exit_code == 0


def test_targets_of_other_classes_name_the_way_to_as_many_outputs(
    folder: Path, tmp_path: Path
) -> None:
    x = tmp_path / "x.npy"
    np.save(x, np.zeros((20, 2), np.float32))
    np.save(tmp_path / "y.npy", np.eye(5, dtype=np.float32)[np.arange(20) % 5])
    result = odt(
        "train", folder / "m.tflite", "--load-input", x, "--load-expected", tmp_path / "y.npy"
    )
    assert "odt replace-head with --classes 5." in result.stderr


@pytest.mark.parametrize("command", ["train", "eval", "check", "predict"])
def test_a_folder_as_the_file_of_inputs_is_sent_to_data(folder: Path, command: str) -> None:
    data = folder / "data"
    result = odt(command, folder / "m.tflite", "--load-input", data)
    assert result.exit_code == 1
    assert result.stderr.endswith(
        f"--load-input: must be a file, but {data} is a folder. Pass a folder of odt gen-datafile "
        f"as --data {data}.\n"
    )
