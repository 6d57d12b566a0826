"""`odt check` of model files that few converters write."""

from pathlib import Path

import numpy as np
from click.testing import CliRunner, Result
from model_builder import ModelBuilder
from support.integer_files import QuantizedBuilder

from odt.cli.main import main


def check(path: Path) -> Result:
    return CliRunner().invoke(main, ["check", str(path), "--loss", "mean-squared-error"])


def test_weights_that_are_not_finite_are_named(tmp_path: Path) -> None:
    net = ModelBuilder("tflite")
    w = net.add_constant(np.full((2, 3), np.nan, np.float32), "w")
    net.write(
        tmp_path / "m.tflite",
        net.add_operator("FULLY_CONNECTED", (net.add_input((1, 3)), w, -1), (1, 2)),
    )
    result = check(tmp_path / "m.tflite")
    assert result.exit_code == 1
    assert 'because weights are not finite before it: tensor 0 ("w")' in result.stdout


def test_a_model_without_operators_has_nothing_to_train(tmp_path: Path) -> None:
    net = ModelBuilder("tflite")
    net.write(tmp_path / "m.tflite", net.add_input((1, 3)))
    result = check(tmp_path / "m.tflite")
    assert result.exit_code == 1, result.output
    assert "FAIL trainable tensors: there are none" in result.stdout


def test_an_integer_file_of_float_outputs_trains(tmp_path: Path) -> None:
    net = QuantizedBuilder()
    x = net.operator("QUANTIZE", (net.add_input((1, 6)),), (1, 6), 0.02, 3)
    w, b = net.weights((4, 6), [0.004]), net.bias(4, [8e-5])
    y = net.operator("FULLY_CONNECTED", (x, w, b), (1, 4), 0.05)
    net.write(tmp_path / "m.tflite", net.add_operator("DEQUANTIZE", (y,), (1, 4)))
    result = check(tmp_path / "m.tflite")
    assert result.exit_code == 0, result.output
