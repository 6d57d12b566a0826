"""The preprocessing record: from the data to the model, and from the model to new data."""

from collections.abc import Sequence
from pathlib import Path

import make_models
import numpy as np
import pytest
from click.testing import CliRunner
from support.datafiles import made, odt, picture_folder

import odt as api
from odt.core.model.reader import read_model
from odt.core.model.record import Record
from odt.core.model.tflite_metadata import read_record

SIZE = (8, 6)


def network(path: Path, shape: Sequence[int], classes: int, kind: str = "tiny") -> Path:
    """A small model with weights from a seed."""
    words = [kind, str(path), "--input-shape", ",".join(map(str, shape))]
    result = CliRunner().invoke(make_models.main, [*words, "--classes", str(classes)])
    assert result.exit_code == 0, result.output
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Data files of photos of two classes in tmp_path/data, and a model m.tflite for them."""
    picture_folder(tmp_path / "photos")
    made("--source", tmp_path / "photos", "--scale", "-1..1", "-o", tmp_path / "data")
    network(tmp_path / "m.tflite", (*SIZE, 3), 2)
    return tmp_path


def train(folder: Path, *words: object) -> Path:
    data = folder / "data"
    files = ("--load-input", data / "train.input.bin", "--load-expected", data / "train.output.bin")
    new = folder / "new.tflite"
    result = odt("train", folder / "m.tflite", *files, "--export-tflite", new, *words)
    assert result.exit_code == 0, result.output
    return new


def record_in(path: Path) -> Record | None:
    return read_record(read_model(path))


def test_training_stores_the_record_of_the_data_in_the_model(photos: Path) -> None:
    record = record_in(train(photos, "--epochs", 1))
    assert record is not None
    assert (record.kind, record.classes) == ("image", ("a", "b"))
    assert record.steps == (
        {"step": "colour", "to": "rgb"},
        {"step": "resize", "height": 8, "width": 6, "method": "bilinear", "fit": "stretch"},
        {"step": "scale", "to": "-1..1"},
        {"step": "dtype", "dtype": "float32"},
    )


def test_the_record_can_be_left_out_and_ones_spelling_leaves_it_out(photos: Path) -> None:
    assert record_in(train(photos, "--no-preprocessing")) is None
    ones = ("--load_input:raw", photos / "data/train.input.bin", "--batch_size", 4)
    assert record_in(train(photos, *ones)) is None


def test_data_without_a_record_keep_the_models(photos: Path) -> None:
    new = train(photos)
    record = record_in(new)
    for path in (photos / "data").glob("*.json"):
        path.unlink()
    new.replace(photos / "m.tflite")
    assert record_in(train(photos)) == record


def test_the_trainer_exports_it_alike(photos: Path) -> None:
    data = photos / "data"
    with api.Trainer(photos / "m.tflite") as trainer:
        trainer.fit(data / "train.input.bin", data / "train.output.bin")
        trainer.export(photos / "api.tflite")
        trainer.export(photos / "bare.tflite", preprocessing=False)
    record = record_in(photos / "api.tflite")
    assert record is not None
    assert record == record_in(train(photos))
    assert record_in(photos / "bare.tflite") is None
    with api.Trainer(photos / "m.tflite") as trainer:
        trainer.fit(np.zeros((4, *SIZE, 3), np.float32), np.eye(2, dtype=np.float32)[[0, 1, 0, 1]])
        trainer.export(photos / "arrays.tflite")
    assert record_in(photos / "arrays.tflite") is None
