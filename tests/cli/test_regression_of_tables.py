"""A table from the file to predictions: a regression, its record, its files."""

import csv
from pathlib import Path

import numpy as np
import pytest
from support.datafiles import made, odt

from odt.core.formats.flatbuffer.tflite_metadata import read_record
from odt.core.formats.reader import read_model

ROWS = 60


@pytest.fixture
def flats(tmp_path: Path) -> Path:
    """A folder with flats.csv, data files and a model that was trained on them."""
    lines = [
        f'{30 + k},{("north", "south")[k % 2]},"${900_000 + 10_000 * k:,}.00"' for k in range(ROWS)
    ]
    lines[7] = lines[7].replace("37", "")
    (tmp_path / "flats.csv").write_text("\n".join(["area,district,price", *lines]) + "\n")
    made("--source", tmp_path / "flats.csv", "--one-hot", "district", "--missing", "mean",
         "--scale", "standardize", "--regression", "-o", tmp_path)  # fmt: skip
    data = ("--load-input", tmp_path / "train.input.bin", "--load-expected",
            tmp_path / "train.output.bin")  # fmt: skip
    for words in (
        ("new", "mlp", "--like", tmp_path / "train.input.bin", "-o", tmp_path / "m.tflite"),
        ("train", tmp_path / "m.tflite", *data, "--loss", "mean-absolute-error", "--epochs", 1,
         "--export-tflite", tmp_path / "t.tflite"),
    ):  # fmt: skip
        assert odt(*words).exit_code == 0
    return tmp_path


def test_the_loss_of_training_is_that_of_evaluation(flats: Path) -> None:
    record = read_record(read_model(str(flats / "t.tflite")))
    assert record is not None
    assert record.loss == "mean_absolute_error"
    source = ("--source", flats / "flats.csv")
    default = odt("eval", flats / "t.tflite", *source)
    assert default.exit_code == 0, default.output
    given = odt("eval", flats / "t.tflite", *source, "--loss", "mean-absolute-error")
    assert given.stdout == default.stdout
    other = odt("eval", flats / "t.tflite", *source, "--loss", "mean-squared-error")
    assert other.stdout != default.stdout
    fresh = odt("eval", flats / "m.tflite", *source, "--as", flats / "train.input.bin.json")
    assert "--loss: must be given" in fresh.stderr  # nothing was trained


def test_a_new_head_has_no_loss_of_the_old_one(flats: Path) -> None:
    words = ("--classes", "2", "-o", flats / "head.tflite")
    result = odt("replace-head", flats / "t.tflite", *words)
    assert result.exit_code == 0, result.output
    record = read_record(read_model(str(flats / "head.tflite")))
    assert record is not None
    assert record.loss == ""


def test_predictions_as_csv_have_the_names_of_the_targets(flats: Path) -> None:
    (flats / "new.csv").write_text("district,area\nnorth,50\nwest,\n")
    result = odt("predict", flats / "t.tflite", "--source", flats / "new.csv", "--output",
                 flats / "p.csv")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "column district: west (1)" in result.stderr
    head, *rows = csv.reader((flats / "p.csv").read_text().splitlines())
    assert head == ["sample", "price"]
    assert [row[0] for row in rows] == ["0", "1"]
    assert odt("predict", flats / "t.tflite", "--source", flats / "new.csv", "--output",
               flats / "p.npy").exit_code == 0  # fmt: skip
    np.testing.assert_allclose(
        [float(row[1]) for row in rows], np.load(flats / "p.npy")[:, 0], rtol=1e-6
    )


def test_rows_that_the_record_leaves_out_are_named(flats: Path) -> None:
    """With --missing drop, predictions name the lines of the table."""
    (flats / "d").mkdir()
    made("--source", flats / "flats.csv", "--one-hot", "district", "--missing", "drop",
         "--regression", "-o", flats / "d")  # fmt: skip
    (flats / "new.csv").write_text("district,area\nnorth,50\nsouth,\nsouth,60\n")
    result = odt("predict", flats / "t.tflite", "--source", flats / "new.csv", "--as",
                 flats / "d/train.input.bin.json")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == ["line 2", "line 4"]
    assert "1 of 3 lines left out: 1 with a missing value (line 3)" in result.stderr


def test_the_columns_of_a_table_are_shown_by_name(flats: Path) -> None:
    result = odt("data", "show", flats / "test.input.bin", flats / "test.output.bin")
    assert result.exit_code == 0
    x = np.fromfile(flats / "test.input.bin", np.float32).reshape(-1, 3)
    area = next(line for line in result.stdout.splitlines() if line.startswith("  area"))
    found = [float(word) for word in area.split()[1:]]
    np.testing.assert_allclose(found, [x[:, 0].min(), x[:, 0].max(), x[:, 0].mean()], rtol=1e-4)
    assert "district=north" in result.stdout
    assert "price" in result.stdout
    assert max(map(len, result.stdout.splitlines())) < 300


def test_options_of_frames_are_for_frames(flats: Path) -> None:
    result = odt("predict", flats / "t.tflite", "--source", flats / "flats.csv", "--frame-size",
                 "4x4")  # fmt: skip
    assert result.exit_code == 1
    assert "must be given with --source -" in result.stderr
