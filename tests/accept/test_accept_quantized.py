"""Quantized files train as well as float files; LiteRT judges.

MLPerf Tiny's ResNet-8 learns CIFAR-10 images turned by 90°: 3 epochs, batch size 32, Adam 1e-4,
three random seeds, all else by default. The anomaly detector learns log-mel windows of speech: 40
epochs, batch size 32, Adam 1e-4. docs/quantized-results.md has the accuracies and errors.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.accept_data import complete
from support.judges import litert
from support.paths import MODELS
from support.seeds import trained_files
from support.turned_images import turned

from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.kernels.geometry.quantize import dequantize, quantize
from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.accept

INT8 = MODELS / "mlperf-tiny-resnet8-cifar10-int8.tflite"
FLOAT = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
AUTOENCODER = MODELS / "mlperf-tiny-ad-autoencoder-int8.tflite"
LEAST = 48.4  # percent of the test images
RECIPE: dict[str, Any] = {"learning_rate": 1e-4, "batch_size": 32}
BEHIND = 1.0  # points, at most, behind the float model


def accuracy(path: Path, out: Path, ranges: str = "file") -> float:
    """Percent of the test images that LiteRT classifies rightly: the mean over the seeds."""
    train, (x, labels) = turned("train"), turned("test")
    shift = 128 * (path == INT8)  # scale 1, zero point −128
    options = {**RECIPE, "loss": "sparse_categorical_crossentropy", "quant_ranges": ranges}
    found = [
        100 * float(np.mean(litert(file, [x - shift])[0].argmax(1) == labels))
        for file in trained_files(path, out, train, 3, **options)
    ]
    print(path.name, ranges, found)
    return float(np.mean(found))


def test_resnet8_int8_learns_turned_images(tmp_path: Path) -> None:
    out = tmp_path / "m.tflite"
    real = accuracy(FLOAT, out)
    for ranges in ("file", "follow"):
        assert accuracy(INT8, out, ranges) >= max(LEAST, real - BEHIND)


MEL = ("--rate", 16000, "--mel", 128, "--frame", 1024, "--hop", 512, "--mel-range", "20,8000")
FRAMES, BANDS = 5, 128  # of a window
WITHIN = 1.02  # of the float model's reconstruction error


def windows_of_speech(folder: Path) -> tuple[Array, Array]:
    """Log-mel windows of recorded words, in dB, for training and for the test."""
    source = complete("data", "audio", "speech-commands-yes-no-wav.zip")
    words = ["gen-datafile", "--source", source, *MEL, "--out-dir", folder]
    result = CliRunner().invoke(main, [*map(str, words)])
    assert result.exit_code == 0, result.output
    found = []
    for part, count in (("train", 200), ("test", 60)):
        bands = np.fromfile(folder / f"{part}.input.bin", np.float32).reshape(count, -1, BANDS)
        each = np.lib.stride_tricks.sliding_window_view(bands, FRAMES, axis=1)
        found.append(each.swapaxes(2, 3).reshape(-1, FRAMES * BANDS))
    return found[0][::2], found[1]


def reconstruction_error(path: Path, out: Path, train: Array, test: Array) -> float:
    """The mean squared error of three trained models in LiteRT."""
    errors = []
    ranges = "follow" if path == AUTOENCODER else "file"
    options = {**RECIPE, "loss": "mean_squared_error", "quant_ranges": ranges}
    for file in trained_files(path, out, (train, train), 40, **options):
        model, x = read_model(file), test
        ends = [model.quantization.get(i) for i in (*model.graph.inputs, *model.graph.outputs)]
        if ends[0] is not None:
            x = quantize(x, ends[0], np.dtype(np.int8))
        y = litert(file, [x])[0].reshape(test.shape)
        real = y if ends[1] is None else dequantize(y, ends[1])
        errors.append(float(np.mean((real - test) ** 2)))
    return float(np.mean(errors))


def test_the_int8_autoencoder_learns_as_well_as_its_float_twin(tmp_path: Path) -> None:
    samples = windows_of_speech(tmp_path)
    twin = complete("data", "models", "mlperf-tiny-ad-autoencoder.tflite")
    int8, real = (
        reconstruction_error(path, tmp_path / "m.tflite", *samples) for path in (AUTOENCODER, twin)
    )
    assert int8 <= WITHIN * real
