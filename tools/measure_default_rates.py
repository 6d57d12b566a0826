"""Measures what two epochs of `odt train` with the default learning rate do to trained models.

python tools/measure_default_rates.py DATA [--seeds N] [--only NAME …]: DATA is the folder with the
data sets. Prints the table of docs/learning-rate.md. Models are evaluated on test data of their own
tasks. Their training has default settings but for --epochs, --seed, --loss where the model has no
final activation, and --data-length for MNIST and Fashion-MNIST. torch trains the residual networks
beforehand.
"""

import argparse
import gzip
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

LENGTH = ("--data-length", "6000")  # of large data sets
SQUARES = ("--loss", "mean-squared-error")
EPOCHS = 2
PRETRAINING = ("--learning-rate", "0.001", "--epochs")  # to get the trained models


@dataclass(frozen=True)
class Task:
    """A trained model, and the data of its own task.

    Attributes:
        data: the data set, as in docs/learning-rate.md.
        source: words of `odt gen-datafile`: a Path is in DATA, a name of WRITTEN in the folder of
            data files.
        make: writes the trained model; its arguments are the path, the folder of data files, and
            DATA. None for a model in DATA/models, whose name is that of the task.
        loss: words of `odt train`, for models without a final activation.
        metric: accuracy, or loss if less is better.
        length: words of `odt train` for the number of training samples.
    """

    data: str
    source: tuple[str | Path, ...] = ()
    make: Callable[[Path, Path, Path], None] | None = None
    loss: tuple[str, ...] = ()
    metric: str = "accuracy"
    length: tuple[str, ...] = ()


def odt(*words: object) -> str:
    """Runs odt; returns what it prints, or ends with its error."""
    command = [sys.executable, "-m", "odt", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout + done.stderr


def paths_of(folder: Path, part: str) -> tuple[Path, Path]:
    """The files with inputs and targets of a part, train or test."""
    return folder / f"{part}.input.bin", folder / f"{part}.output.bin"


def files_of(folder: Path, part: str) -> tuple[object, ...]:
    """The options that name the files of a part."""
    inputs, targets = paths_of(folder, part)
    return "--load-input", inputs, "--load-expected", targets


def array_of(path: Path) -> Any:
    """The float32 samples of a raw data file."""
    shape = json.loads(Path(f"{path}.json").read_text())["tensors"][0]["shape"]
    return np.fromfile(path, np.float32).reshape(-1, *shape)


def resnet(blocks: int, epochs: int, part: slice) -> Callable[[Path, Path, Path], None]:
    """A residual network whose BatchNorm is folded; torch trains it on a part of the samples."""

    def make(path: Path, folder: Path, data: Path) -> None:
        from folded_resnets import train_resnet  # torch is installed for this alone

        x, y = map(array_of, paths_of(folder, "train"))
        train_resnet(path, x[part], y[part], blocks=blocks, epochs=epochs)

    return make


def new(kind: str, epochs: int, *words: str) -> Callable[[Path, Path, Path], None]:
    """A network of `odt new`, trained from random weights."""

    def make(path: Path, folder: Path, data: Path) -> None:
        odt("new", kind, "--like", folder / "train.input.bin", "-o", path, *words)
        own = (*SQUARES, *LENGTH) if kind == "autoencoder" else ()
        options = (*own, *PRETRAINING, epochs, "--export-tflite", path)
        odt("train", path, *files_of(folder, "train"), *options)

    return make


def new_head(epochs: int) -> Callable[[Path, Path, Path], None]:
    """A shipped MobileNet whose new last layers were trained beforehand."""

    def make(path: Path, folder: Path, data: Path) -> None:
        like = ("--like", folder / "train.input.bin")
        odt("replace-head", data / "models" / MOBILENET, *like, "-o", path)
        options = (*PRETRAINING, epochs, "--cache-frozen", "--export-tflite", path)
        odt("train", path, *files_of(folder, "train"), *options)

    return make


CIFAR = ("--source", Path("image/cifar10-jpg-subset.zip"))
FASHION = ("fashion-mnist", "--data-dir", Path("image/fashion-mnist"))
MNIST = ("mnist", "--data-dir", Path("image/mnist"))
SPECTRA = Path("audio/speech-commands-yes-no-mel60x40.npz")
PHOTOS = (
    *("--source", Path("photos/trashnet-4class"), "--split", "train=0.5,test=0.5"),
    *("--size", "224x224", "--scale", "-1..1"),
)
MOBILENET = "teachable-machine-mobilenetv2-0.35-fruit.tflite"
TASKS = {
    "mlperf-tiny-resnet8-cifar10": Task("CIFAR-10", (*CIFAR, "--scale", "none")),
    "ResNet-8, folded BatchNorm": Task("CIFAR-10", CIFAR, resnet(1, 8, slice(None))),
    "ResNet-8 for one channel": Task(
        "Fashion-MNIST", FASHION, resnet(1, 5, slice(6000, 14000)), length=LENGTH
    ),
    "kws-yes-no-conv60x40": Task("yes/no, 1,000 spectrograms", ("--source", SPECTRA)),
    "ds-cnn": Task("yes/no, 1,000 spectrograms", ("--source", "spectra.npz"), new("ds-cnn", 15)),
    "autoencoder": Task(
        "MNIST",
        (*MNIST, "--flatten"),
        new("autoencoder", 10),
        loss=SQUARES,
        metric="loss",
        length=LENGTH,
    ),
    "tflm-mnist-lstm-float": Task("MNIST", MNIST, length=LENGTH),
    "mlp": Task("table of 1,797 handwritten digits", ("--source", "digits.npz"), new("mlp", 10)),
    "mobilenetv2-0.35, head of 5 epochs": Task("TrashNet, 200 photos", PHOTOS, new_head(5)),
    "mobilenetv2-0.35, head of 20 epochs": Task("TrashNet, 200 photos", PHOTOS, new_head(20)),
    "mnist-cnn-uint8-input": Task("MNIST", (*MNIST, "--dtype", "uint8"), length=LENGTH),
    "mnist-dense-512-10": Task("MNIST", MNIST, length=LENGTH),
}


def write_digits(data: Path, path: Path) -> None:
    """Writes a table in random order as arrays."""
    with gzip.open(data / "tabular/digits.csv.gz") as table:
        rows = np.loadtxt(table, delimiter=",", dtype=np.float32)
    x, y = np.split(np.random.default_rng(0).permutation(rows), [64], axis=1)
    np.savez(path, x=x / 16, y=y.astype(np.int32).ravel())


def write_spectra(data: Path, path: Path) -> None:
    """Writes spectrograms with an axis of channels."""
    with np.load(data / SPECTRA) as file:
        arrays = {name: file[name] for name in ("x_train", "y_train", "x_test", "y_test")}
    for name in ("x_train", "x_test"):
        arrays[name] = arrays[name][..., np.newaxis].astype(np.float32) / 80  # dB
    np.savez(path, **arrays)


WRITTEN = {"digits.npz": write_digits, "spectra.npz": write_spectra}


def write_data(name: str, data: Path, folder: Path) -> Path:
    """Writes training and test files; returns the path of the model."""
    task, model = TASKS[name], data / "models" / f"{name}.tflite"
    words = [data / w if isinstance(w, Path) else w for w in task.source]
    for k, word in enumerate(task.source):
        if word in WRITTEN:
            words[k] = folder / word
            WRITTEN[str(word)](data, folder / word)
    like = () if task.make else ("--like", model)
    odt("gen-datafile", *words, *like, "--out-dir", folder)
    if task.metric == "loss":  # an autoencoder's target is its input
        for part in ("train", "test"):
            inputs, targets = paths_of(folder, part)
            for end in ("", ".json"):
                Path(f"{targets}{end}").unlink()
                Path(f"{targets}{end}").symlink_to(f"{inputs}{end}")
    if task.make is None:
        return model
    task.make(folder / "model.tflite", folder, data)
    return folder / "model.tflite"


def evaluate(model: Path, task: Task, folder: Path) -> float:
    """The metric on the test files: accuracy in percent, or the loss."""
    metric = () if task.metric == "loss" else ("--metric", task.metric)
    printed = odt("eval", model, *files_of(folder, "test"), *task.loss, *metric)
    match = re.search(rf"{task.metric}: \[0\] (-?[\d.e+-]+|-?inf|nan)", printed)
    assert match, printed
    return float(match[1]) * (1 if task.metric == "loss" else 100)


@dataclass(frozen=True)
class Row:
    """One line of the table: the metric before and after, for each seed."""

    model: str
    rate: str
    before: float
    after: Sequence[float]

    @property
    def gains(self) -> list[float]:
        """Points gained with each seed; percent of the loss where less is better."""
        if TASKS[self.model].metric == "loss":
            return [100 * (self.before - a) / self.before for a in self.after]
        return [a - self.before for a in self.after]

    def __str__(self) -> str:
        digits = ".4f" if TASKS[self.model].metric == "loss" else ".1f"
        after = " / ".join(f"{a:{digits}}" for a in self.after)
        cells = (self.model, TASKS[self.model].data, self.rate, f"{self.before:{digits}}", after)
        return f"| {' | '.join(cells)} |"


def rate_of(printed: str) -> str:
    """The learning rate with which odt began to train."""
    # A line tells a rate that odt has lowered; the line of an undone epoch goes on "from now on".
    lowered = re.search(r"The learning rate is (\S+), not ", printed)
    used = lowered or re.search(r"learning_rate += (\S+)", printed)
    assert used, printed
    return used[1]


def measure(name: str, data: Path, seeds: int) -> Row:
    """Trains a model with default settings, once for each seed."""
    task = TASKS[name]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        model = write_data(name, data, folder)
        out, after, rate = folder / "trained.tflite", [], ""
        for seed in range(seeds):
            words: tuple[Any, ...] = (*files_of(folder, "train"), *task.loss, "--seed", seed)
            words += (*task.length, "--epochs", EPOCHS, "--export-tflite", out)
            printed = odt("train", model, *words)
            rate = rate_of(printed)
            after.append(evaluate(out, task, folder))
        return Row(name, rate, evaluate(model, task, folder), after)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=(), choices=list(TASKS))
    arguments = parser.parse_args()
    print("| model | data | learning rate | before | after |\n| --- | --- | --- | --- | --- |")
    for name in [*arguments.only] or TASKS:
        print(measure(name, arguments.data, arguments.seeds), flush=True)


if __name__ == "__main__":
    main()
