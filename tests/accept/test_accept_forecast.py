"""Ten runs of `odt train`, whose time and peak memory `odt plan` foretells.

Wall time needs a machine without other work. `FORECAST=processor make accept ONLY=forecast`
compares processor time instead.
"""

import gzip
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from support.accept_data import complete
from support.paths import MODELS

from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.accept

TIME, MEMORY = 0.25, 0.10  # fractions by which forecasts may differ
REPEATS = 3
ON_PROCESSOR = os.environ.get("FORECAST") == "processor"
# Prints the peak of the process after a command; `wait4` counts memory of this process, too.
PROGRAM = """
import sys
import time
if sys.argv.pop(1) == "processor":
    time.perf_counter = time.process_time
from odt.cli.main import main
main(sys.argv[1:], standalone_mode=False)
(peak,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak) * 1024)
"""
RNG = np.random.default_rng(0)


class Run(NamedTuple):
    """A model, its samples, and options of `odt plan` and `odt train`."""

    model: Path
    x: Array
    y: Array
    options: tuple[object, ...]


def odt(*words: object) -> tuple[str, float, int]:
    """Runs a command; returns what it prints, its seconds, and the peak bytes of its process."""
    clock = "processor" if ON_PROCESSOR else "wall"
    command = [sys.executable, "-c", PROGRAM, clock, *map(str, words)]
    before = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - before
    assert status == 0, printed
    text, _, peak = printed.rstrip().rpartition("\n")
    return text, usage.ru_utime + usage.ru_stime if ON_PROCESSOR else seconds, int(peak)


def new(folder: Path, kind: str, shape: str, outputs: int) -> Path:
    """Makes a model with random weights."""
    path = folder / f"{kind}.tflite"
    odt("new", kind, "-o", path, "--input-shape", shape, "--outputs", outputs, "--seed", 1)
    return path


def one_hot(labels: Array, classes: int) -> Array:
    return np.eye(classes, dtype=np.float32)[labels]


def fashion(count: int) -> tuple[Array, Array]:
    """Images of Fashion-MNIST and their labels."""
    folder = complete("data", "image", "fashion-mnist")
    with gzip.open(folder / "train-images-idx3-ubyte.gz") as images:
        pixels = np.frombuffer(images.read(16 + count * 784)[16:], np.uint8)
    with gzip.open(folder / "train-labels-idx1-ubyte.gz") as labels:
        classes = np.frombuffer(labels.read(8 + count)[8:], np.uint8)
    return pixels.reshape(count, 28, 28).astype(np.float32) / 255, classes


def photos(count: int) -> tuple[Array, Array]:
    """Bright and dark noise in the size of photos, and which of two classes it is."""
    labels = np.arange(count) % 2
    x = RNG.random((count, 224, 224, 3), np.float32) * 0.5
    return x + labels[:, None, None, None].astype(np.float32) * 0.5, labels


def dense_table(folder: Path) -> Run:
    table = np.loadtxt(
        complete("data", "tabular", "breast_cancer.csv"), np.float32, delimiter=",", skiprows=1
    )
    x = (table[:, :-1] - table[:, :-1].mean(0)) / table[:, :-1].std(0)
    y = one_hot(table[:, -1].astype(int), 2)
    return Run(new(folder, "mlp", "30", 2), x, y, ("--epochs", 300, "--validation-split", 0.2))


def dense_images(folder: Path) -> Run:
    x, labels = fashion(10_000)
    model = complete("data", "models", "mnist-dense-512-10.tflite")
    return Run(model, x, one_hot(labels, 10), ("--epochs", 8, "--learning-rate", 0.001))


def small_cnn(folder: Path) -> Run:
    x, labels = fashion(6_000)
    options = ("--epochs", 6, "--validation-split", 0.1, "--batch-size", 64)
    return Run(new(folder, "cnn", "28,28,1", 10), x[..., None], one_hot(labels, 10), options)


def residual_network(folder: Path) -> Run:
    x = RNG.random((800, 32, 32, 3), np.float32)
    y = one_hot(RNG.integers(0, 10, 800), 10)
    model = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
    return Run(model, x, y, ("--epochs", 6, "--patience", 6, "--validation-split", 0.2))


def last_layer_of_cached_mobilenet(folder: Path) -> Run:
    x, labels = photos(240)
    options = ("--num-of-trainable-ops", 2, "--cache-frozen", "--epochs", 60)
    model = complete("data", "models", "teachable-machine-mobilenetv2-0.35-fruit.tflite")
    return Run(model, x, one_hot(labels, 2), (*options, "--validation-split", 0.2))


def whole_mobilenet(folder: Path) -> Run:
    x, labels = photos(96)
    model = complete("data", "models", "teachable-machine-mobilenetv2-0.35-fruit.tflite")
    return Run(model, x, one_hot(labels, 2), ("--epochs", 5, "--batch-size", 16))


def recurrent_sounds(folder: Path) -> Run:
    words = np.load(complete("data", "audio", "speech-commands-yes-no-mel60x40.npz"))
    x, y = words["x_train"].astype(np.float32), one_hot(words["y_train"], 2)
    return Run(new(folder, "lstm", "60,40", 2), x, y, ("--epochs", 12, "--validation-split", 0.1))


def text(folder: Path) -> Run:
    x = RNG.integers(0, 2_000, (2_000, 256)).astype(np.int32)
    y = one_hot(RNG.integers(0, 2, 2_000), 2)
    model = MODELS / "text-classification-average-embedding.tflite"
    return Run(model, x, y, ("--epochs", 6, "--learning-rate", 0.001))


def onnx_file(folder: Path) -> Run:
    x, labels = fashion(3_000)
    model = complete("onnx", "files", "onnxruntime-__mnist.onnx")
    options = ("--epochs", 4, "--loss", "categorical-crossentropy", "--validation-split", 0.1)
    return Run(model, x[:, None], one_hot(labels, 10), options)


def int8_file(folder: Path) -> Run:
    x = RNG.random((1_000, 49, 10, 1), np.float32)
    y = one_hot(RNG.integers(0, 12, 1_000), 12)
    model = MODELS / "mlperf-tiny-kws-dscnn-int8.tflite"
    return Run(model, x, y, ("--epochs", 6, "--validation-split", 0.1))


RUNS = (
    dense_table,
    dense_images,
    small_cnn,
    residual_network,
    last_layer_of_cached_mobilenet,
    whole_mobilenet,
    recurrent_sounds,
    text,
    onnx_file,
    int8_file,
)


@pytest.mark.parametrize("make", RUNS, ids=lambda make: make.__name__)
def test_time_and_memory_are_foretold(make: Callable[[Path], Run], tmp_path: Path) -> None:
    """Medians of three plans and three runs."""
    run = make(tmp_path)
    np.save(tmp_path / "x.npy", run.x)
    np.save(tmp_path / "y.npy", run.y)
    data = ("--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npy")
    foretold, seconds, process, peak = [], [], [], []
    for _ in range(REPEATS):
        numbers = json.loads(odt("plan", run.model, *data, *run.options, "--json")[0])
        foretold.append(numbers["time"]["total"])
        process.append(numbers["process"])
        _, took, most = odt("train", run.model, *data, *run.options)
        seconds.append(took)
        peak.append(most)
    time_foretold, time_taken = statistics.median(foretold), statistics.median(seconds)
    memory_foretold, memory_taken = statistics.median(process), statistics.median(peak)
    print(
        f"{make.__name__}: {time_foretold:.2f} s of {time_taken:.2f} s "
        f"({time_foretold / time_taken - 1:+.0%}), {memory_foretold / 1e6:.1f} MB of "
        f"{memory_taken / 1e6:.1f} MB ({memory_foretold / memory_taken - 1:+.0%})"
    )
    assert abs(time_foretold / time_taken - 1) <= TIME
    assert abs(memory_foretold / memory_taken - 1) <= MEMORY
