"""SGD with quantization-aware scaling learns as SGD on floats does.

The weights of the last layers and all biases train, without momentum, as in tiny-training. All
have one recipe. Its learning rate was chosen for float training with one seed, among rates that are
about 3 times apart; `--qas` and training without scaling take the same.
"""

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.accept_data import complete
from support.paths import MODELS
from support.turned_images import turned

import odt
from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.core.runtime.parameters import Parameters
from odt.dataclass import dataclass
from odt.kernels.native.binding import Run
from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.accept

LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
BEHIND = 1.0  # points, at most, behind float training
AHEAD = 10.0  # points, at least, ahead of integers without scaling
Samples = tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class Task:
    """Data, and a recipe.

    Attributes:
        real, integers: the float model and the quantized one.
        train, test: samples, and the numbers of their classes.
        last: number of layers whose weights train.
        epochs, batch_size, rate: as options of training.
        seeds: number of trainings.
    """

    real: Path
    integers: Path
    train: Samples
    test: Samples
    last: int
    epochs: int
    batch_size: int
    rate: float
    seeds: int = 3


def run(*words: object) -> None:
    result = CliRunner().invoke(main, list(map(str, words)))
    assert result.exit_code == 0, result.output


def part(folder: Path, name: str, shape: tuple[int, ...]) -> Samples:
    """Samples of the data files that `gen-datafile` wrote."""
    x = np.fromfile(folder / f"{name}.input.bin", np.float32).reshape(-1, *shape)
    y = np.fromfile(folder / f"{name}.output.bin", np.float32).reshape(len(x), -1)
    return x, y.argmax(1).astype(np.int32)


def cifar(folder: Path) -> Task:
    name = "mlperf-tiny-resnet8-cifar10"
    files = MODELS / f"{name}.tflite", MODELS / f"{name}-int8.tflite"
    return Task(*files, turned("train"), turned("test"), 4, 3, 32, 3e-3)


def yes_no(folder: Path) -> Task:
    real, integers = folder / "real.tflite", folder / "int8.tflite"
    shipped = MODELS / "mlperf-tiny-kws-dscnn-int8.tflite"
    run("replace-head", shipped, "--classes", 2, "--seed", 1, "--output", integers)
    with odt.Trainer(integers) as trainer:
        trainer.export(real, float_weights=True)
    sounds = complete("data", "audio", "speech-commands-yes-no-wav.zip")
    run(
        "gen-datafile", "--source", sounds, "--rate", 16000, "--mel", 40, "--mfcc", 10, "--frame",
        480, "--hop", 320, "--mel-range", "20,4000", "--like", integers, "--out-dir", folder,
    )  # fmt: skip
    train, test = (part(folder, name, (49, 10, 1)) for name in ("train", "test"))
    return Task(real, integers, train, test, 10, 10, 8, 1e-2, seeds=12)  # of only 60 answers each


def trashnet(folder: Path) -> Task:
    real, integers = folder / "real.tflite", folder / "int8.tflite"
    backbone = complete("data", "models", "teachable-machine-mobilenetv2-0.35-fruit.tflite")
    run("replace-head", backbone, "--classes", 4, "--seed", 1, "--output", real)
    run(
        "gen-datafile", "--source", complete("data", "photos", "trashnet-4class"), "--like", real,
        "--scale=-1..1", "--split", "train=0.5,test=0.5", "--stratify", "--seed", 1,
        "--out-dir", folder,
    )  # fmt: skip
    run("quantize", real, "--calibrate", folder / "train.input.bin", "--output", integers)
    train, test = (part(folder, name, (224, 224, 3)) for name in ("train", "test"))
    return Task(real, integers, train, test, 11, 8, 8, 3e-3)


def selected(path: Path, last: int) -> odt.Trainable:
    """The weights of the last layers, and all biases."""
    graph = read_model(str(path)).graph
    layers = [n for n in graph.nodes if n.op in LAYERS]
    chosen = [n.inputs[1] for n in layers[-last:]] + [n.inputs[2] for n in layers]
    return odt.select(*(graph.tensors[i].name.replace("[", "[[]") for i in chosen if i >= 0))


def accuracy(task: Task, path: Path, rate: float, **options: object) -> float:
    """Percent of the test samples that are classified rightly: the mean over the seeds."""
    found = []
    for seed in range(1, task.seeds + 1):
        trainer = odt.Trainer(
            path,
            loss="sparse_categorical_crossentropy",
            optimizer="sgd",
            learning_rate=odt.CosineDecay(rate),
            batch_size=task.batch_size,
            workers=1,
            metrics="accuracy",
            trainable=selected(path, task.last),
            **options,  # type: ignore[arg-type]
        )
        with warnings.catch_warnings(), trainer:
            warnings.simplefilter("ignore", odt.OdtWarning)
            trainer.fit(*task.train, epochs=task.epochs, seed=seed, shuffle=True)
            found.append(100 * trainer.evaluate(*task.test)["accuracy"])
    print(path.name, rate, found)
    return float(np.mean(found))


def without_scaling(path: Path) -> object:
    """Parameters.bind_update that moves integers by their own gradient, s dL/dw, times the rate."""
    quantization, bind = read_model(str(path)).quantization, Parameters.bind_update

    def bind_update(self: Parameters, i: int, gradient: Array, *others: object) -> list[Run]:
        g = gradient.reshape(self.tensors[i].shape, copy=False)
        scale = quantization[i].along_axis(g.ndim)[0].astype(np.float32)
        calls = bind(self, i, gradient, *others)  # type: ignore[arg-type]
        return [partial(np.multiply, g, scale * scale, out=g), *calls]

    return bind_update


@pytest.mark.parametrize("make", [cifar, yes_no, trashnet])
def test_scaled_integers_learn_as_floats_do(
    make: Callable[[Path], Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = make(tmp_path)
    integers = partial(accuracy, task, task.integers, qas=True, quant_ranges="follow")
    real, scaled = accuracy(task, task.real, task.rate), integers(task.rate)
    monkeypatch.setattr(Parameters, "bind_update", without_scaling(task.integers))
    unscaled = integers(task.rate)
    assert scaled >= real - BEHIND
    assert unscaled < scaled - AHEAD
