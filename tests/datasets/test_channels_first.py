"""Photos for models from PyTorch, whose images have the channels first."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.datafiles import jpeg, made, odt, samples, sidecar
from support.paths import ROOT

from odt import Trainer
from odt.core.model.record import is_channels_first
from odt.datasets.contact_sheet import picture
from odt.kernels.rows.opdef import Array

TORCH = ROOT / "tests" / "golden_torch" / "cnn.circle"  # (3, 12, 12) → 5 logits
LOSS = ("--loss", "categorical-crossentropy")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Five classes of colors, in photos of another size than the model's."""
    random = np.random.default_rng(0)
    for c in range(5):
        (tmp_path / f"photos/{c}").mkdir(parents=True)
        for k in range(8):
            x = np.zeros((16, 20, 3))
            x[..., c % 3] = 200 if c < 3 else 60
            x[: 4 * (c // 3), :, (c + 1) % 3] = 250
            x += random.normal(0, 8, x.shape)
            data = jpeg(np.clip(x, 0, 255).astype(np.uint8))
            (tmp_path / f"photos/{c}/{k}.png").write_bytes(data)
    return tmp_path


def pixels(path: Path) -> Array:
    """An image as (3, 12, 12), normalized by its definition."""
    x = np.asarray(Image.open(path).resize((12, 12), Image.Resampling.BILINEAR), np.float64) / 255
    return ((x - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]).transpose(2, 0, 1)


def test_data_training_prediction_and_evaluation_agree(photos: Path) -> None:
    norm = ("--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225", "--scale", "0..1")
    made("--source", photos / "photos", "--like", TORCH, *norm, "--split", "train=1.0",
         "--no-shuffle", "--no-stratify", "-o", photos / "d")  # fmt: skip
    x, y = photos / "d/train.input.bin", photos / "d/train.output.bin"
    data = samples(x)
    assert data.shape == (40, 3, 12, 12)
    assert abs(data[9] - pixels(photos / "photos/1/1.png")).max() < 1e-5
    assert {"step": "axes", "to": "channels first"} in sidecar(x)["preprocessing"]
    new = photos / "t.tflite"
    trained = odt("train", TORCH, "--load-input", x, "--load-expected", y, *LOSS, "--epochs", 8,
                  "--seed", 1, "--learning-rate", 0.01, "--optimizer", "adam",
                  "--export-circle", photos / "t.circle", "--metric", "accuracy")  # fmt: skip
    assert trained.exit_code == 0, trained.stderr
    new = photos / "t.circle"
    by_file = odt(
        "eval", new, "--load-input", x, "--load-expected", y, *LOSS, "--metric", "accuracy"
    )
    by_folder = odt("eval", new, "--source", photos / "photos", *LOSS, "--metric", "accuracy")
    assert by_folder.exit_code == 0, by_folder.stderr
    assert by_folder.stdout == by_file.stdout
    assert float(by_folder.stdout.split()[-1]) > 0.9
    said = odt("predict", new, "--source", photos / "photos/2/3.png", "--top", 1)
    outputs = Trainer(new, loss="categorical_crossentropy").predict(data[19:20])
    assert said.stdout.split()[1:] == ["2", f"{outputs[0, 2]:.4f}"]
    again = made("--source", photos / "photos", "--as", new, "-o", photos / "e")
    assert "(3, 12, 12)" in again.stdout
    assert np.array_equal(samples(photos / "e/new.input.bin"), data)


def test_data_of_another_layout_fit_a_model_that_reads_channels_first(photos: Path) -> None:
    """The record of data with channels last also prepares photos for such a model."""
    made("--source", photos / "photos", "--size", "12x12", "--split", "train=1.0",
         "-o", photos / "d")  # fmt: skip
    record = photos / "d/train.input.bin.json"
    path = photos / "photos/4/0.png"
    said = odt("predict", TORCH, "--source", path, "--as", record, "--top", 1)
    x = np.asarray(Image.open(path).resize((12, 12), Image.Resampling.BILINEAR), np.float32) / 255
    outputs = Trainer(TORCH, loss="categorical_crossentropy").predict(x.transpose(2, 0, 1)[None])
    assert said.stdout.split()[1:] == [str(outputs.argmax()), f"{outputs.max():.4f}"]


def test_gray_images_and_sheets(tmp_path: Path) -> None:
    x = np.random.default_rng(1).random((3, 5, 7))
    drawn = picture(x.reshape(-1), (3, 5, 7))
    assert drawn.shape == (5, 7, 3)
    wanted = (x - x.min()) / (x.max() - x.min()) * 255
    assert np.array_equal(drawn, wanted.transpose(1, 2, 0).astype(np.uint8))
    shapes = [(3, 8, 8), (1, 8, 8), (8, 8, 3), (8, 8, 1), (3, 8, 3), (8, 8, 8), (3, 8)]
    assert [is_channels_first(s) for s in shapes] == [True, True, *[False] * 5]
