"""Damaged integer files give an answer or one line; 10,000 of them in accept."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import quantized_lstm
from support.damaged_integers import MAKERS, fuzz, make, run, train
from support.integer_files import QuantizedBuilder

import odt
from odt.errors import OdtError
from odt.kernels.integer.unidirectional_sequence_lstm import fixed_factor

# Kinds that need a sequence length, or have a loop that depends on data.
UNTRAINED = ("streaming", "frames", "svdf", "while")


@pytest.mark.parametrize("kind", MAKERS)
def test_damaged_integer_files(kind: str, tmp_path: Path) -> None:
    fuzz(kind, tmp_path, 4, seed=3)


@pytest.mark.parametrize("kind", MAKERS)
def test_whole_files_train(kind: str, tmp_path: Path) -> None:
    make(kind, tmp_path)
    assert run("inspect", str(tmp_path / "whole.tflite")) == ""
    if kind not in UNTRAINED:
        train(tmp_path / "whole.tflite")
        assert (tmp_path / "trained.tflite").exists()


SHAPE = (1, 4)


def conversion_without_inputs(net: QuantizedBuilder) -> int:
    x = net.operator("ADD", (net.activation(SHAPE, 0.1),) * 2, SHAPE, 0.1)
    net.operator("QUANTIZE", (), SHAPE, 0.1)
    return x


def variable_without_handle(net: QuantizedBuilder) -> int:
    x = net.operator("READ_VARIABLE", (), SHAPE, 0.1)
    return net.operator("ADD", (x, net.activation(SHAPE, 0.1)), SHAPE, 0.1)


def list_without_length(net: QuantizedBuilder) -> int:
    net.add_operator("CUSTOM:FlexTensorListReserve", (), (1,))
    return net.operator("ADD", (net.activation(SHAPE, 0.1),) * 2, SHAPE, 0.1)


def layer_with_one_input(net: QuantizedBuilder) -> int:
    x = net.operator("FULLY_CONNECTED", (net.activation(SHAPE, 0.1),), SHAPE, 0.1)
    return net.operator("FULLY_CONNECTED", (x, net.weights((4, 4), [0.1])), SHAPE, 0.1)


def operator_without_outputs(net: QuantizedBuilder) -> int:
    x = net.activation(SHAPE, 0.1)
    net.add_operator("ADD", (x, x), SHAPE)
    net.graph.operators[-1].outputs = []
    return net.operator("ADD", (x, x), SHAPE, 0.1)


def softmax_without_inputs(net: QuantizedBuilder) -> int:
    x = net.activation(SHAPE, 0.1)
    net.operator("SOFTMAX", (), SHAPE, 1 / 256, -128)
    return net.operator("ADD", (x, x), SHAPE, 0.1)


def conversion_to_float(net: QuantizedBuilder) -> int:
    x = net.operator("ADD", (net.activation(SHAPE, 0.1),) * 2, SHAPE, 0.1)
    return net.add_operator("QUANTIZE", (x,), SHAPE)


def scales_that_do_not_fit(net: QuantizedBuilder) -> int:
    x = net.activation(SHAPE, 0.1)
    return net.operator("FULLY_CONNECTED", (x, net.weights((4, 4), [0.1] * 3)), SHAPE, 0.1)


def bias_of_another_length(net: QuantizedBuilder) -> int:
    x, w = net.activation(SHAPE, 0.1), net.weights((4, 4), [0.1] * 4)
    return net.operator("FULLY_CONNECTED", (x, w, net.bias(2, [0.01] * 2)), SHAPE, 0.1)


def bias_with_more_scales_than_values(net: QuantizedBuilder) -> int:
    x, w = net.activation(SHAPE, 0.1), net.weights((4, 4), [0.1] * 4)
    return net.operator("FULLY_CONNECTED", (x, w, net.bias(3, [0.01] * 4)), SHAPE, 0.1)


def output_that_nothing_makes(net: QuantizedBuilder) -> int:
    x = net.activation(SHAPE, 0.1)
    net.operator("ADD", (x, x), SHAPE, 0.1)
    return net.add_tensor(SHAPE, "int8")


ONE_SCALE = "there must be one scale, or one for each entry of an axis, but got"
DAMAGED: dict[Callable[[QuantizedBuilder], int], str] = {
    conversion_without_inputs: r"\(QUANTIZE\): must have 1 inputs and 1 outputs, but got 0 and 1",
    variable_without_handle: r"\(READ_VARIABLE\): must have 1 inputs .*, but got 0 and 1",
    list_without_length: "must have 2 to 9 inputs and 1 outputs, but got 0 and 1",
    layer_with_one_input: r"must have 2 to 3 tensors \(x, w, b\?\), but got 1",
    operator_without_outputs: r"\(ADD\): must have 1 tensor \(y\), but got 0",
    softmax_without_inputs: r"\(SOFTMAX\): must have 1 tensor \(x\), but got 0",
    conversion_to_float: "must be integers with a scale, but got float32 without",
    scales_that_do_not_fit: rf"{ONE_SCALE} 3 along axis 0 of \(4, 4\) int8",
    bias_of_another_length: "a bias must have 4 values, one for each scale .*, but got 2",
    bias_with_more_scales_than_values: rf"{ONE_SCALE} 4 along axis 0 of \(3,\) int32",
    output_that_nothing_makes: "graph output tensor 2 .*: must be computed by an operator",
}


@pytest.mark.parametrize(("build", "rule"), DAMAGED.items(), ids=[f.__name__ for f in DAMAGED])
def test_the_rule_is_named(
    build: Callable[[QuantizedBuilder], int], rule: str, tmp_path: Path
) -> None:
    net, path = QuantizedBuilder(seed=1), tmp_path / "m.tflite"
    net.write(path, build(net))
    run("inspect", str(path))
    run("check", str(path))
    with pytest.raises(OdtError, match=rule):
        odt.Trainer(path, loss="mean_squared_error").session.build()


def test_quotients_of_scales_of_an_lstm_are_limited(tmp_path: Path) -> None:
    path = quantized_lstm.build(tmp_path / "m.tflite", projection=3, hidden=(1e30, 0))
    with pytest.raises(OdtError, match=r"node 0 .*: quotients of scales must be below 2\^31"):
        odt.Trainer(path, loss="mean_squared_error").session.build()
    assert fixed_factor(np.float32(1e-20)) == (0, 0, 0, 0)


def test_a_cell_clip_is_a_number(tmp_path: Path) -> None:
    path = quantized_lstm.build(tmp_path / "m.tflite", cell_clip=float("nan"))
    with pytest.raises(OdtError, match="cell_clip must be a number of 0 or more, but got nan"):
        odt.Trainer(path, loss="mean_squared_error").session.build()
