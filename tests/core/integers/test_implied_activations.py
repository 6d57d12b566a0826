"""Quantized files whose ranges stand for RELU and RELU6: they compute as if these were named."""

from pathlib import Path

import numpy as np
import pytest
from support.integer_files import QuantizedBuilder, full_range
from support.judges import litert
from support.quantized_networks import NAMES
from support.subgraphs import WIDTH, Subgraphs

import odt
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.formats.reader import read_model
from odt.core.integers.implied_activations import (
    FUSED,
    implied_activations,
    with_implied_activations,
)
from odt.core.lowering.normalize.inline import inline

LOSS = "mean_squared_error"
RANGES = {"RELU": 0.05, "RELU6": 6 / 255}  # the scale: up to 12.75, or 6


def network(path: Path, activation: str, *, named: bool, dtype: str = "int8") -> Path:
    """Two layers; the first has an activation, by name or by its range."""
    net = QuantizedBuilder(seed=2)
    least = int(np.iinfo(dtype).min)
    x = net.activation((1, 8), 0.05, 3, dtype)
    zero = 120 if dtype == "uint8" else 0
    w = net.weights((6, 8), [0.02], dtype=dtype, zero=zero)
    y = net.operator(
        "FULLY_CONNECTED",
        (x, w, net.bias(6, [0.001])),
        (1, 6),
        RANGES[activation],
        least,
        dtype,
        fused_activation_function=NAMES[activation] * named,
    )
    w = net.weights((3, 6), [0.02], dtype=dtype, zero=zero)
    y = net.operator("FULLY_CONNECTED", (y, w, -1), (1, 3), 0.3, least // 2 + 64, dtype)
    net.write(path, y)
    return path


@pytest.mark.parametrize("activation", RANGES)
def test_the_activation_is_found(activation: str, tmp_path: Path) -> None:
    for dtype in ("int8", "uint8"):
        path = network(tmp_path / "m.tflite", activation, named=False, dtype=dtype)
        model = read_model(path)
        y = model.graph.nodes[0].outputs[0]
        assert implied_activations(model) == {y: NAMES[activation]}
    path = network(tmp_path / "m.tflite", activation, named=True)
    assert not implied_activations(read_model(path))


class Composites(QuantizedBuilder, Subgraphs):
    """Builds quantized files with composites."""


def test_only_the_operator_with_the_range_gets_the_activation(tmp_path: Path) -> None:
    """Operators of a subgraph have one position in the file."""
    net = Composites()

    def layers() -> tuple[int, ...]:
        x = net.activation((1, WIDTH), 0.05, 3)
        w, b = net.weights((WIDTH, WIDTH), [0.02]), net.bias(WIDTH, [0.001])
        for least in (-128, 5):
            x = net.operator("FULLY_CONNECTED", (x, w, b), (1, WIDTH), 0.05, least)
        return (x,)

    y = net.composite(net.activation((1, WIDTH), 0.05, 3), net.subgraph(layers))
    net.graph.tensors[y].type = code_of("TensorType", "INT8")
    net.quantize(y, [0.05], [5])
    net.write(tmp_path / "m.tflite", y)
    model = inline(read_model(tmp_path / "m.tflite"))
    graph = with_implied_activations(model.graph, implied_activations(model))
    codes = [n.options[FUSED] for n in graph.nodes if n.op == "FULLY_CONNECTED"]
    assert codes == [NAMES["RELU"], 0]


@pytest.mark.parametrize("activation", RANGES)
def test_ranges_that_follow_keep_the_activation(activation: str, tmp_path: Path) -> None:
    """Otherwise the range would grow below 0, and the layer would become linear."""
    files = []
    for named in (True, False):
        path = network(tmp_path / f"{named}.tflite", activation, named=named)
        (x,) = full_range(read_model(path), 64)
        t = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
        trainer = odt.Trainer(path, loss=LOSS, batch_size=16, quant_ranges="follow")
        trainer.fit(x, t, epochs=3, seed=1)
        out = tmp_path / f"{named}.trained.tflite"
        trainer.export(out)
        files.append(read_model(out))
    by_name, by_range = files
    y = by_name.graph.nodes[0].outputs[0]
    assert by_range.quantization[y].zero_point[0] == -128
    for i, quantization in by_name.quantization.items():
        np.testing.assert_array_equal(quantization.scale, by_range.quantization[i].scale)
        a, b = (model.graph.tensors[i].data for model in files)
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("activation", RANGES)
def test_a_float_export_names_the_activation(activation: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(0, 8, (32, 8)).astype(np.float32)
    computed = []
    for named in (True, False):
        path = network(tmp_path / "m.tflite", activation, named=named)
        with odt.Trainer(path, loss=LOSS) as trainer:
            trainer.export(tmp_path / "out.tflite", float_weights=True)
        graph = read_model(tmp_path / "out.tflite").graph
        codes = [n.options["fused_activation_function"] for n in graph.nodes]
        assert codes == [NAMES[activation], 0]
        computed.append(litert(tmp_path / "out.tflite", [x])[0])
    np.testing.assert_array_equal(computed[0], computed[1])
