"""Training with quantization-aware scaling takes less memory than float training.

MobileNetV2 0.35, the network of Teachable Machine, trains the weights of its last three blocks and
all biases with SGD: as float, and quantized with `--qas`.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.accept_data import complete
from support.growth import grown

import odt
from odt.cli.main import main
from odt.core.formats.reader import read_model

pytestmark = pytest.mark.accept

LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
MOST = 0.45  # of the memory of float training
SAMPLES = 32


def selected(path: Path) -> list[str]:
    """Options that select the weights of the last three blocks and all biases."""
    graph = read_model(path).graph
    layers = [n for n in graph.nodes if n.op in LAYERS]
    blocks = [n for n in layers if n.op != "FULLY_CONNECTED"][-10:-1]  # the last one is the head's
    chosen = [n.inputs[1] for n in blocks] + [n.inputs[2] for n in layers if n.inputs[2:]]
    names = (graph.tensors[i].name.replace("[", "[[]") for i in chosen if i >= 0)
    return [word for name in names for word in ("--trainable", name)]


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """Model and options of both trainings, and their data."""
    folder = tmp_path_factory.mktemp("qas")
    real = complete("data", "models", "teachable-machine-mobilenetv2-0.35-fruit.tflite")
    x = np.random.default_rng(0).uniform(-1, 1, (SAMPLES, 224, 224, 3)).astype(np.float32)
    integers = folder / "int8.tflite"
    odt.quantize(real, x[:8], input_type="int8", output_type="int8").model.save(integers)
    np.save(folder / "x.npy", x)
    np.save(folder / "bytes.npy", np.rint(x * 127).astype(np.int8))
    np.save(folder / "y.npy", np.eye(2, dtype=np.float32)[np.arange(SAMPLES) % 2])
    data = {real: "x.npy", integers: "bytes.npy"}
    return [
        [str(path), "--optimizer", "sgd", "--workers", "1", *selected(path)]
        + (["--qas"] if path == integers else [])
        + ["--load-input", str(folder / data[path]), "--load-expected", str(folder / "y.npy")]
        for path in (real, integers)
    ]


def without_data(options: list[str]) -> list[str]:
    return options[: options.index("--load-input")]


@pytest.mark.parametrize("micro_batch", [2, 4, 8, 32])
def test_the_plan_shows_less_than_half(networks: list[list[str]], micro_batch: int) -> None:
    """A single sample is left out: Python's objects are nearly half of its memory (0.52)."""
    peaks = []
    for options in networks:
        line = ["plan", *without_data(options), "--micro-batch", str(micro_batch)]
        result = CliRunner().invoke(main, line)
        assert result.exit_code == 0, result.output
        (peak,) = re.findall(r"^peak +([\d,]+) bytes", result.output, re.MULTILINE)
        peaks.append(int(peak.replace(",", "")))
    assert peaks[1] < MOST * peaks[0]


@pytest.mark.parametrize("micro_batch", [2, 8, 32])
def test_the_process_grows_less_than_half(networks: list[list[str]], micro_batch: int) -> None:
    """By how much a process grows while it trains a batch of 32, beside one that only imports."""
    _, before = grown("train", "--help")
    options = {"--micro-batch": micro_batch, "--epochs": 1, "--seed": 1, "--learning-rate": 1e-6}
    more = [str(word) for option in options.items() for word in option]
    sizes = [grown("train", *words, *more)[1] - before for words in networks]
    assert sizes[1] < MOST * sizes[0]
