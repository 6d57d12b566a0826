"""Each data set becomes training files by one command; a suited model reaches the accuracy."""

import re
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import pytest
from support.accept_data import complete
from support.paths import ROOT

pytestmark = pytest.mark.accept

TOOLS = ROOT / "tools"


def run(*words: object) -> str:
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def odt(*words: object) -> str:
    return run("-m", "odt", *words)


def files(folder: Path, split: str) -> tuple[object, ...]:
    return (
        "--load-input", folder / f"{split}.input.bin",
        "--load-expected", folder / f"{split}.output.bin",
    )  # fmt: skip


def measured(model: Path, folder: Path, metric: str, *options: object) -> float:
    """The metric on the test files."""
    line = odt("eval", model, *files(folder, "test"), "--metric", metric, *options)
    print(line)
    found = re.search(rf"{metric.replace('-', '_')}: \[0\] (-?[\d.]+)", line)
    assert found
    return float(found[1])


def train(model: Path, folder: Path, out: Path, *options: object) -> None:
    odt("train", model, *files(folder, "train"), "--shuffle", *options, "--export-tflite", out)


def accuracy(model: Path, folder: Path, *options: object) -> float:
    out = folder / "trained.tflite"
    train(model, folder, out, *options)
    return measured(out, folder, "categorical-accuracy")


def test_cifar_10_by_fine_tuning_the_mlperf_resnet(tmp_path: Path) -> None:
    model = complete("data", "models", "mlperf-tiny-resnet8-cifar10.tflite")
    pictures = complete("data", "image", "cifar10-jpg-subset.zip")
    like = ("--like", model, "--scale", "none")  # the model takes 0 … 255
    odt("gen-datafile", "--source", pictures, *like, "--out-dir", tmp_path)
    recipe = ("--epochs", 2, "--learning-rate", 1e-4, "--seed")
    # Single seeds scatter by 2.8 points about 75.2 %.
    assert fmean(accuracy(model, tmp_path, *recipe, seed) for seed in (0, 1, 2)) >= 0.74


def test_trashnet_by_training_the_last_layers(tmp_path: Path) -> None:
    """A new head for four classes behind the features of Teachable Machine's MobileNetV2."""
    backbone = complete("data", "models", "teachable-machine-mobilenetv2-0.35-fruit.tflite")
    model = tmp_path / "head.tflite"
    odt("replace-head", backbone, "--classes", 4, "--output", model, "--seed", 1)
    photos = complete("data", "photos", "trashnet-4class")
    odt(
        "gen-datafile", "--source", photos, "--like", model, "--scale=-1..1", "--split",
        "train=0.8", "--split", "test=0.2", "--stratify", "--seed", 1, "--out-dir", tmp_path,
    )  # fmt: skip
    options = ("--num-of-trainable-ops", 2, "--epochs", 15, "--seed", 1)
    assert accuracy(model, tmp_path, *options) >= 0.79


def test_yes_and_no_from_log_mel_arrays(tmp_path: Path) -> None:
    model = complete("data", "models", "kws-yes-no-conv60x40.tflite")
    arrays = complete("data", "audio", "speech-commands-yes-no-mel60x40.npz")
    odt("gen-datafile", "--source", arrays, "--like", model, "--out-dir", tmp_path)
    assert accuracy(model, tmp_path, "--epochs", 3, "--learning-rate", 1e-4) >= 0.94


def test_yes_and_no_from_recordings(tmp_path: Path) -> None:
    """The same features, made by odt; the model is fine-tuned on 200 recordings."""
    model = complete("data", "models", "kws-yes-no-conv60x40.tflite")
    sounds = complete("data", "audio", "speech-commands-yes-no-wav.zip")
    mel = ("--mel", 40, "--frames", 60)
    odt("gen-datafile", "--source", sounds, *mel, "--out-dir", tmp_path)
    options = ("--epochs", 10, "--batch-size", 16, "--learning-rate", 1e-3)
    assert accuracy(model, tmp_path, *options) >= 0.85


TABLES = {
    "breast_cancer": ("breast_cancer.csv", 30, 2, 10, 0.95),
    "wine": ("wine_data.csv", 13, 3, 15, 0.95),
    "iris": ("iris.csv", 4, 3, 180, 0.93),
    "digits": ("digits.csv.gz", 64, 10, 15, 0.96),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_classes(name: str, tmp_path: Path) -> None:
    """The mean over five folds."""
    file, features, classes, epochs, least = TABLES[name]
    model, found = tmp_path / "model.tflite", []
    shape = ("--input-shape", features, "--classes", classes, "--seed", 1)
    run(TOOLS / "make_models.py", "mlp", model, *shape)
    for fold in range(1, 6):
        folder = tmp_path / str(fold)
        odt(
            "gen-datafile", "--source", complete("data", "tabular", file), "--scale",
            "standardize", "--fold", f"{fold}/5", "--seed", 1, "--out-dir", folder,
        )  # fmt: skip
        found.append(accuracy(model, folder, "--epochs", epochs, "--batch-size", 16))
    assert sum(found) / len(found) >= least


def test_diabetes_as_a_regression(tmp_path: Path) -> None:
    """The mean R² over five folds."""
    model, found = tmp_path / "model.tflite", []
    shape = ("--input-shape", 10, "--classes", 1, "--seed", 1)
    run(TOOLS / "make_models.py", "regressor", model, *shape)
    source = complete("data", "tabular", "diabetes_data_raw.csv.gz")
    target = complete("data", "tabular", "diabetes_target.csv.gz")
    loss = ("--loss", "mean-squared-error")
    for fold in range(1, 6):
        folder = tmp_path / str(fold)
        odt(
            "gen-datafile", "--source", source, "--target-source", target, "--regression",
            "--scale", "standardize", "--fold", f"{fold}/5", "--seed", 1, "--out-dir", folder,
        )  # fmt: skip
        options = ("--epochs", 60, "--batch-size", 16, "--learning-rate", 0.003)
        train(model, folder, folder / "out.tflite", *loss, *options)
        found.append(measured(folder / "out.tflite", folder, "r2", *loss))
    assert sum(found) / len(found) >= 0.4
