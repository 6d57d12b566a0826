"""`odt check`: it says beforehand whether a model will train."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from model_builder import ModelBuilder
from networks import Net

from odt.cli.main import main
from odt.core.random_data import RandomData
from odt.core.selftest import self_test
from odt.core.training_info import TrainingInfo
from odt.kernels.opdef import Array, Kernel, TensorSpec
from odt.kernels.ops import fully_connected

HERE = Path(__file__).parent
MODELS = HERE / "models"
FLOAT32 = np.dtype(np.float32)


def check(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


@pytest.mark.parametrize(
    "name",
    [
        "mlperf-tiny-resnet8-cifar10",
        "kws-yes-no-conv60x40",
        "tflm-magic-wand-float",
        "tflm-mnist-lstm-float",
    ],
)
def test_a_model_that_trains_passes(name: str) -> None:
    result = check(MODELS / f"{name}.tflite", "--batch-size", 4)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\nok  ") == 4
    assert result.stdout.endswith("It will train.\n")


def test_data_files_are_used() -> None:
    folder = HERE / "golden" / "mnist"
    data = ("--load-input", folder / "input.bin", "--load-expected", folder / "expected.bin")
    loss = ("--loss", "categorical-crossentropy", "--batch-size", 8)
    result = check(folder / "model.circle", *data, *loss)
    assert result.exit_code == 0, result.output
    x = np.fromfile(folder / "input.bin", "<f4")
    assert x.size
    assert "ok   loss: 3." in result.stdout  # the first recorded losses are around 3.1


def test_arithmetic_is_that_of_the_layers() -> None:
    """784 → 128 → 10: two FLOP a weight, and RELU, SOFTMAX one a value."""
    result = check(HERE / "golden" / "mlp_sm" / "model.circle")
    assert f"{2 * (784 * 128 + 128 * 10) + 128 + 10:,} FLOP" in result.stdout


def test_a_dead_network_is_found(tmp_path: Path) -> None:
    """RELU of what is always negative: no weight before it has a gradient."""
    model = ModelBuilder("circle", seed=0)
    x = model.add_input((1, 4))
    w = model.add_constant(np.zeros((3, 4), np.float32), "w")
    b = model.add_constant(np.full(3, -1, np.float32), "b")
    y = model.add_operator("FULLY_CONNECTED", [x, w, b], (1, 3), fused_activation_function=1)
    model.write(tmp_path / "dead.circle", y)
    result = check(tmp_path / "dead.circle", "--loss", "mean-squared-error")
    assert result.exit_code == 1
    assert "FAIL gradients: w is zero; b is zero" in result.stdout
    assert result.stdout.endswith("It will not train as it is.\n")


def test_operators_without_a_row_are_all_named() -> None:
    result = check(MODELS / "while_000.circle")
    assert result.exit_code == 1
    assert "node 0 (WHILE)" in result.stderr


def test_random_samples_depend_on_their_number_alone() -> None:
    data = RandomData([TensorSpec((3,), FLOAT32)], [TensorSpec((5,), FLOAT32)], [True], seed=1)
    x, t = np.empty((4, 3), np.float32), np.empty((4, 5), np.float32)
    data.read(range(4), [x], [t])
    y, u = np.empty((2, 3), np.float32), np.empty((2, 5), np.float32)
    data.read(range(2, 4), [y], [u])
    np.testing.assert_array_equal(x[2:], y)
    np.testing.assert_array_equal(t[2:], u)
    np.testing.assert_array_equal(t.sum(axis=1), 1)


def test_a_wrong_gradient_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    graph = net.graph(net.dense(net.dense(net.input(1, 5), 6), 3))
    data = RandomData([TensorSpec((5,), FLOAT32)], [TensorSpec((3,), FLOAT32)], [False])
    info = TrainingInfo(loss="mean_squared_error", batch_size=4)
    assert all(f.passed for f in self_test(graph, info, data))
    row = fully_connected.OP

    def doubled(attrs: Any, **arrays: Array) -> None:
        fully_connected.grad_x(attrs, **arrays)
        arrays["dx"] *= 2

    grads = {**row.grads, "x": Kernel(doubled, reads=("dy", "w"), writes=("dx",))}
    monkeypatch.setattr("odt.core.autodiff.find_operator", lambda name: replace(row, grads=grads))
    failed = [f.what for f in self_test(graph, info, data) if not f.passed]
    assert failed == ["finite differences"]
