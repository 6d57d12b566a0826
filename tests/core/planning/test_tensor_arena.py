"""The tensor arena of a model, and what bounds it."""

from pathlib import Path

import pytest
from support.networks import Net
from support.paths import MODELS
from support.quantized_networks import small_net

import odt
from odt.core.formats.reader import read_model
from odt.core.planning.tensor_arena import tensor_arena


@pytest.mark.parametrize(
    ("name", "nbytes"),
    [
        # The input of the residual block, and the input and output of a convolution in it.
        ("mlperf-tiny-resnet8-cifar10-int8.tflite", 3 * 32 * 32 * 16),
        # Input and output of a convolution.
        ("mlperf-tiny-kws-dscnn-int8.tflite", 2 * 25 * 5 * 64),
    ],
)
def test_the_arena_holds_what_lives_together(name: str, nbytes: int) -> None:
    assert tensor_arena(read_model(str(MODELS / name)).graph) == nbytes


def test_inputs_outputs_and_branches_live_together() -> None:
    net = Net()
    x = net.input(1, 64)
    a, b = (net.add("TANH", [x], (1, 64)) for _ in range(2))
    c = net.add("RELU", [a], (1, 32))
    graph = net.graph(b, c)
    assert tensor_arena(graph) == 3 * 64 * 4  # x, a and b; c fits where x was


def test_inspect_prints_it_and_training_keeps_it(tmp_path: Path) -> None:
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    small_net(path)
    odt.Trainer(path, loss="mean_squared_error").export(out)
    lines = [
        next(k for k in odt.load_model(p).summary().splitlines() if k.startswith("tensor arena"))
        for p in (path, out)
    ]
    # The input (72) and the output (144) of the convolution, in multiples of 64 bytes.
    assert lines == ["tensor arena: 320 bytes of activations, one sample at a time"] * 2


def test_float_models_have_no_such_line() -> None:
    path = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
    assert "tensor arena" not in odt.load_model(path).summary()
