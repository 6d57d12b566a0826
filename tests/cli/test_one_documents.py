"""The three command lines of Samsung ONE's training documents, on data of the same shapes."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from model_builder import ModelBuilder
from support.accept_data import complete
from support.paths import ROOT

from odt.cli.main import main
from odt.core.formats.reader import read_model

FASHION_MNIST = ROOT / "examples" / "fashion-mnist"
SAME, RELU, RELU6 = 0, 1, 3  # of the schema's Padding and ActivationFunctionType
# Data options complete them; the documents' names of models and files are kept.
MNIST = (
    "mnist.circle --load_input:raw fashion-mnist.train.input.1000.bin "
    "--load_expected:raw fashion-mnist.train.output.1000.bin --epoch 5 --loss 1 "
    "--loss_reduction_type 1 --optimizer 2 --learning_rate 0.001 --batch_size 10 "
    "--num_of_trainable_ops -1"
)
IMAGENET = (
    "mobilenetv2.circle --load_input:raw imagenet_a.test.input.100.bin "
    "--load_expected:raw imagenet_a.test.output.100.bin --epoch 5 --loss 2 "
    "--loss_reduction_type 1 --optimizer 2 --learning_rate 0.001 --batch_size 10 "
    "--num_of_trainable_ops -1"
)
TRANSFER = (
    "transfer_learning.circle --load_input:raw cats_and_dogs.input.bin "
    "--load_expected:raw cats_and_dogs.output.bin --epoch 5 --loss 1 --loss_reduction_type 1 "
    "--optimizer 2 --learning_rate 0.0001 --batch_size 32 --num_of_trainable_ops 5 "
    "--export_path transfer_learning.trained.circle"
)


def data(line: str, samples: int, shape: tuple[int, ...], targets: np.ndarray) -> None:
    """Writes the files that a line names: inputs that say a little of their targets."""
    words = line.split()
    rng = np.random.default_rng(0)
    inputs = rng.random((samples, *shape), np.float32)
    inputs += targets.argmax(1).reshape(-1, *[1] * len(shape)).astype(np.float32) / 10
    inputs.tofile(words[words.index("--load_input:raw") + 1])
    targets.astype("<f4").tofile(words[words.index("--load_expected:raw") + 1])


def one_hot(samples: int, classes: int) -> np.ndarray:
    return np.eye(classes, dtype=np.float32)[np.arange(samples) * 7 % classes]


def losses(line: str) -> list[float]:
    """Trains; gives the epochs' losses, everything printed as onert_train prints it."""
    result = CliRunner().invoke(main, ["train", *line.split()])
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(
        f"Model Filename {line.split(maxsplit=1)[0]}\n== training parameter ==\n"
    )
    assert re.search(r"^EXECUTE      takes \d+\.\d{4} ms$", result.stdout, re.MULTILINE)
    return [
        float(v) for v in re.findall(r"ms/step - loss: \[0\] (\d+\.\d{4})$", result.stdout, re.M)
    ]


def image_network(path: str, side: int, classes: int, *, softmax: bool) -> None:
    """A MobileNetV2 in small: one inverted residual block, a mean over the image, a dense end."""
    model = ModelBuilder(seed=1)
    image = model.add_input((1, side, side, 3))
    half = side // 4
    stride: dict[str, Any] = {
        "padding": SAME,
        "stride_w": 4,
        "stride_h": 4,
        "fused_activation_function": RELU6,
    }
    x = model.add_operator(
        "CONV_2D", [image, model.add_weight((8, 3, 3, 3), 27), model.add_constant([0.0] * 8)],
        (1, half, half, 8), **stride,
    )  # fmt: skip
    unit: dict[str, Any] = {"padding": SAME, "stride_w": 1, "stride_h": 1}
    y = model.add_operator(
        "DEPTHWISE_CONV_2D",
        [x, model.add_weight((1, 3, 3, 8), 9), model.add_constant([0.0] * 8)],
        (1, half, half, 8), depth_multiplier=1, fused_activation_function=RELU6, **unit,
    )  # fmt: skip
    y = model.add_operator(
        "CONV_2D", [y, model.add_weight((8, 1, 1, 8), 8), model.add_constant([0.0] * 8)],
        (1, half, half, 8), **unit,
    )  # fmt: skip
    x = model.add_operator("ADD", [x, y], (1, half, half, 8))
    axes = model.add_constant(np.array([1, 2], np.int32))
    x = model.add_operator("MEAN", [x, axes], (1, 8), keep_dims=False)
    end: dict[str, Any] = {} if softmax else {"fused_activation_function": RELU}
    x = model.add_dense(x, classes, **end)
    if softmax:
        x = model.add_operator("SOFTMAX", [x], (1, classes), beta=1.0)
    model.write(path, x)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_cnn_on_mnist(folder: Path) -> None:
    model = ModelBuilder(seed=1)
    x = model.add_input((1, 28, 28, 1))
    shape = model.add_constant(np.array([1, 784], np.int32))
    x = model.add_operator("RESHAPE", [x, shape], (1, 784), new_shape=[1, 784])
    x = model.add_dense(x, 128, fused_activation_function=RELU)
    model.write("mnist.circle", model.add_dense(x, 10))
    data(MNIST, 1000, (28, 28, 1), one_hot(1000, 10))
    found = losses(MNIST)
    assert len(found) == 5
    assert found[-1] < found[0]


def test_data_files_of_the_mnist_document_are_those_that_it_trains_on(folder: Path) -> None:
    line = "--dataset-name fashion_mnist --prefix-name fashion-mnist --model mnist --out-dir ."
    made = CliRunner().invoke(
        main, ["gen-datafile", "--data-dir", str(FASHION_MNIST), *line.split()]
    )
    assert made.exit_code == 0, made.stderr
    model = ModelBuilder(seed=1)
    x = model.add_input((1, 28, 28, 1))
    shape = model.add_constant(np.array([1, 784], np.int32))
    x = model.add_operator("RESHAPE", [x, shape], (1, 784), new_shape=[1, 784])
    model.write("mnist.circle", model.add_dense(x, 10))
    found = losses(MNIST)
    assert len(found) == 5
    assert found[-1] < found[0]


def test_mobilenetv2_on_imagenet(folder: Path) -> None:
    image_network("mobilenetv2.circle", 224, 1000, softmax=True)
    data(IMAGENET, 20, (224, 224, 3), one_hot(20, 1000))
    found = losses(IMAGENET)
    assert len(found) == 5
    assert found[-1] < found[0] < 10


def test_transfer_learning(folder: Path) -> None:
    image_network("transfer_learning.circle", 160, 1, softmax=False)
    rng = np.random.default_rng(1)
    data(TRANSFER, 64, (160, 160, 3), rng.integers(0, 2, (64, 1)).astype(np.float32))
    found = losses(TRANSFER)
    assert len(found) == 5
    before, after = (
        [t.data for t in read_model(name).graph.tensors if t.data is not None]
        for name in ("transfer_learning.circle", "transfer_learning.trained.circle")
    )
    changed = [not np.array_equal(a, b) for a, b in zip(before, after, strict=True)]
    # CONV_2D is the sixth operator from the end: its weight and bias stay, and the axes of MEAN.
    assert changed == [False, False, True, True, True, True, False, True, True]


@pytest.mark.accept
def test_mobilenetv2_itself(folder: Path) -> None:
    """With images of 96×96, as the recorded ones are."""
    golden = complete("golden", "mbv2_96")
    line = IMAGENET.replace("mobilenetv2.circle", str(golden / "model.circle"))
    line = line.replace("imagenet_a.test.input.100.bin", str(golden / "input.bin"))
    line = line.replace("imagenet_a.test.output.100.bin", str(golden / "expected.bin"))
    line = line.replace("--batch_size 10", "--batch_size 8")
    found = losses(line)
    assert len(found) == 5
    assert found[-1] < found[0]
