"""Real models on real data, by the commands a user types; accuracies on the test files."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.accept_data import complete
from support.paths import ROOT

pytestmark = pytest.mark.accept


def odt(*arguments: object) -> str:
    command = [sys.executable, "-m", "odt", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The complete data sets as raw files."""
    folder = tmp_path_factory.mktemp("data")
    for name, source in (("fashion_mnist", "fashion-mnist"), ("mnist", "mnist")):
        odt(
            "gen-datafile", name,
            "--data-dir", complete("data", "image", source),
            "--out-dir", folder / name,
        )  # fmt: skip
    return folder


@pytest.mark.parametrize(
    ("kind", "name", "batch", "held_back", "least"),
    [
        ("mlp", "fashion_mnist", 64, 0.0, 0.87),
        ("cnn", "fashion_mnist", 32, 0.1, 0.90),
        ("cnn", "mnist", 32, 0.1, 0.985),
    ],
)
def test_five_epochs_reach_the_accuracy(
    kind: str, name: str, batch: int, held_back: float, least: float, data: Path, tmp_path: Path
) -> None:
    model, trained, files = tmp_path / "model.circle", tmp_path / "out.circle", data / name
    tool = ROOT / "tools" / "make_models.py"
    make = [sys.executable, str(tool), kind, str(model), "--seed", "1"]
    subprocess.run(make, check=True, capture_output=True)
    print(
        odt(
            "train", model,
            "--load-input", files / "train.input.bin",
            "--load-expected", files / "train.output.bin",
            "--epochs", 5, "--batch-size", batch, "--loss", "categorical-crossentropy",
            "--optimizer", "adam", "--learning-rate", 0.001, "--num-of-trainable-ops", -1,
            "--validation-split", held_back, "--metric", "categorical-accuracy", "--shuffle",
            "--seed", 1, "--export-circle", trained, "--export-tflite", tmp_path / "out.tflite",
        )
    )  # fmt: skip
    line = odt(
        "eval", trained,
        "--load-input", files / "test.input.bin",
        "--load-expected", files / "test.output.bin",
        "--metric", "categorical-accuracy",
    )  # fmt: skip
    print(line)
    found = re.search(r"categorical_accuracy: \[0\] ([\d.]+)", line)
    assert found
    assert float(found[1]) > least
