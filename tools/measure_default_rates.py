"""Measures what the default settings do to trained models: accuracy before and after `odt train`.

python tools/measure_default_rates.py DATA [--seeds N]: DATA is the folder with the data sets.
Prints the table of docs/training.md. Every model is trained with no option but those that its data
need, and evaluated on test data of its own task.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

LOGITS = ("--loss", "categorical-crossentropy")
VALUES = ("--loss", "mean-squared-error")


@dataclass(frozen=True)
class Task:
    """A trained model, and the data of its own task.

    Attributes:
        data: the data set, as in docs/training.md.
        source: words of `odt gen-datafile`; empty for the sine, which is computed.
        loss: words of `odt train`, for models without a final activation.
        metric: metric on the test data.
    """

    data: str
    source: tuple[str, ...] = ()
    loss: tuple[str, ...] = ()
    metric: str = "accuracy"


CIFAR = ("--source", "image/cifar10-jpg-subset.zip")
MNIST = ("mnist", "--data-dir", "image/mnist")
SPECTRA = ("--source", "audio/speech-commands-yes-no-mel60x40.npz")
SOUNDS = ("--source", "audio/speech-commands-yes-no-wav.zip")
TASKS = {
    "mlperf-tiny-resnet8-cifar10": Task("CIFAR-10, 6,500 images", (*CIFAR, "--scale", "none")),
    "kws-yes-no-conv60x40": Task("yes/no, 1,000 spectrograms", SPECTRA),
    "kws-yes-no-dwconv128x32": Task(
        "yes/no, 200 recordings",
        (*SOUNDS, "--mel", "32", "--hop", "121", "--frames", "128"),
        LOGITS,
    ),
    "mnist-cnn-uint8-input": Task("MNIST", (*MNIST, "--dtype", "uint8")),
    "mnist-dense-512-10": Task("MNIST", MNIST),
    "tflm-mnist-lstm-float": Task("MNIST", MNIST),
    "tflm-hello-world-sine-float": Task("sin x, 1,000 values", (), VALUES, "r2"),
}


def odt(*words: object) -> str:
    command = [sys.executable, "-m", "odt", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout + done.stderr


def write_data(task: Task, model: Path, data: Path, folder: Path) -> dict[str, tuple[Any, ...]]:
    """Writes training and test files; returns the options that name them."""
    if not task.source:
        rng = np.random.default_rng(0)
        for part, count in (("train", 1000), ("test", 500)):
            x = rng.uniform(0, 2 * np.pi, (count, 1)).astype(np.float32)
            np.save(folder / f"{part}.input.npy", x)
            np.save(folder / f"{part}.output.npy", np.sin(x))
    else:
        words = [data / w if (data / w).exists() else w for w in task.source]
        odt("gen-datafile", *words, "--like", model, "--out-dir", folder)
    suffix = "bin" if task.source else "npy"
    return {
        part: ("--load-input", folder / f"{part}.input.{suffix}",
               "--load-expected", folder / f"{part}.output.{suffix}")
        for part in ("train", "test")
    }  # fmt: skip


def evaluate(model: Path, task: Task, files: tuple[Any, ...]) -> float:
    """The metric on the test files, in percent."""
    found = re.search(
        r"(?:accuracy|r2): \[0\] (-?[\d.]+)",
        odt("eval", model, *files, *task.loss, "--metric", task.metric),
    )
    assert found
    return 100 * float(found[1])


@dataclass(frozen=True)
class Row:
    """One line of the table: percent before and after, for each seed."""

    model: str
    task: Task
    rate: str
    before: float
    after: list[float]

    def __str__(self) -> str:
        after = " / ".join(f"{a:.1f}" for a in self.after)
        cells = (self.model, self.task.data, self.rate, f"{self.before:.1f}", after)
        return f"| {' | '.join(cells)} |"


def measure(name: str, data: Path, seeds: int) -> Row:
    """Trains a model with the default settings, once for each seed."""
    task, model = TASKS[name], data / "models" / f"{name}.tflite"
    with tempfile.TemporaryDirectory() as folder:
        files = write_data(task, model, data, Path(folder))
        out, after, rate = Path(folder) / "trained.tflite", [], ""
        for seed in range(seeds):
            words = (*files["train"], *task.loss, "--seed", seed, "--export-tflite", out)
            printed = odt("train", model, *words)
            rates = re.findall(r"The learning rate is (\S+),|learning_rate += (\S+)", printed)
            rate = next((found for found, _ in rates if found), rates[0][1])
            after.append(evaluate(out, task, files["test"]))
        return Row(name, task, rate, evaluate(model, task, files["test"]), after)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=(), choices=list(TASKS))
    arguments = parser.parse_args()
    print("| model | data | learning rate | before | after |\n| --- | --- | --- | --- | --- |")
    for name in [*arguments.only] or TASKS:
        print(measure(name, arguments.data, arguments.seeds), flush=True)


if __name__ == "__main__":
    main()
