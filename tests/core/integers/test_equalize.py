"""Cross-layer equalization of quantized files with one scale for each weight."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support.integer_files import QuantizedBuilder, full_range
from support.judges import litert

import odt
from odt.core.formats.reader import read_model
from odt.core.integers.real_graph import real_graph
from odt.core.model.model import Model
from odt.kernels.rows.opdef import Array

RELU, RELU6 = 1, 3
UNITS = (9, 12, 7, 3)
SCALE = 0.01


def uneven_net(path: Path, activation: int = RELU) -> Model:
    """Three layers; the first unit of each has weights up to 21 times as large as the others'."""
    net = QuantizedBuilder(seed=4)
    x, s_x = net.activation((1, UNITS[0]), 0.05, 3), 0.05
    for k, (inputs, units) in enumerate(pairwise(UNITS)):
        values = net.rng.integers(-6, 7, (units, inputs)).astype(np.int8)
        values[0] = np.linspace(-127, 127, inputs)
        w, b = net.add_constant(values), net.bias(units, [s_x * SCALE], most=200)
        net.quantize(w, [SCALE], [0])
        last = k == len(UNITS) - 2
        s_x, zero = (0.25, 0) if last else (0.05 * (k + 1), -128)
        code, inputs_of = 0 if last else activation, (x, w, b)
        x = net.operator(
            "FULLY_CONNECTED", inputs_of, (1, units), s_x, zero, fused_activation_function=code
        )
    net.write(path, x)
    return read_model(path)


def layers(model: Model) -> list[list[Array]]:
    graph = real_graph(model).graph
    nodes = (n for n in graph.nodes if n.op == "FULLY_CONNECTED")
    found = [[graph.tensors[i].real for i in n.inputs[1:]] for n in nodes]
    return [[a for a in pair if a is not None] for pair in found]


def outputs(weights: list[list[Array]], x: Array) -> Array:
    for w, b in weights[:-1]:
        x = np.maximum(x @ w.T + b, 0)
    w, b = weights[-1]
    return x @ w.T + b


def equalized(model: Model) -> Model:
    return replace(model, equalized=frozenset(range(len(model.graph.tensors))))


def test_the_function_stays_and_weights_are_even(tmp_path: Path) -> None:
    model = uneven_net(tmp_path / "m.tflite")
    before, after = layers(model), layers(equalized(model))
    x = np.random.default_rng(0).normal(size=(20, UNITS[0]))
    wanted = outputs(before, x)
    assert np.abs(outputs(after, x) - wanted).max() <= 1e-5 * np.abs(wanted).max()
    for (w, _), (v, _) in pairwise(after):
        np.testing.assert_allclose(abs(w).max(axis=1), abs(v).max(axis=0), rtol=1e-2)
    stored = real_graph(equalized(model)).graph
    for node in (n for n in stored.nodes if n.op == "FULLY_CONNECTED"):
        tensor = stored.tensors[node.inputs[1]]
        assert tensor.real is not None
        assert tensor.quantization is not None
        scale = tensor.quantization.first.scale
        np.testing.assert_allclose(scale, [abs(tensor.real).max() / 127], rtol=1e-6)


def test_layers_stay_whose_outputs_are_limited(tmp_path: Path) -> None:
    model = uneven_net(tmp_path / "m.tflite", RELU6)
    for before, after in zip(layers(model), layers(equalized(model)), strict=True):
        assert all(map(np.array_equal, before, after))


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 0),
        ({"trainable": odt.last(1), "quant_ranges": "follow"}, 0),
        ({"quant_ranges": "follow"}, 6),
    ],
)
def test_weights_that_train_are_equalized_if_ranges_follow(
    options: dict[str, object], count: int, tmp_path: Path
) -> None:
    uneven_net(tmp_path / "m.tflite")
    trainer = odt.Trainer(tmp_path / "m.tflite", loss="mse", **options)  # type: ignore[arg-type]
    assert len(trainer.session.recipe.model.equalized) == count


def test_the_exported_file_computes_the_same_with_finer_weights(tmp_path: Path) -> None:
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    model = uneven_net(path)
    (x,) = full_range(model, 64)
    first = litert(path, [x])[0] * 0.25
    trainer = odt.Trainer(
        path, loss="mse", optimizer="sgd", learning_rate=1e-12, batch_size=16, quant_ranges="follow"
    )
    trainer.fit(x, first.astype(np.float32), epochs=2, seed=1)
    trainer.export(out)
    after = read_model(out)
    assert len(after.data) == len(model.data)
    y = litert(out, [x])[0] * 0.25
    assert np.abs(y - first).max() <= 3 * 0.25
    w = model.graph.nodes[0].inputs[1]
    coarse, fine = (
        np.median(abs(layers(m)[0][0])) / m.quantization[w].scale for m in (model, after)
    )
    assert fine > 2 * coarse  # steps of the first layer's weights
    np.testing.assert_allclose(trainer.predict(x), y, atol=1e-6)


def test_a_resumed_training_gives_the_same_file(tmp_path: Path) -> None:
    path, checkpoint = tmp_path / "m.tflite", tmp_path / "c.odt"
    (x,) = full_range(uneven_net(path), 32)
    y = np.random.default_rng(1).normal(size=(32, UNITS[-1])).astype(np.float32)
    for name, epochs, options in (
        ("whole", 3, {"quant_ranges": "follow"}),
        ("first", 2, {"quant_ranges": "follow"}),
        ("second", 3, {"checkpoint": checkpoint}),
    ):
        trainer = odt.Trainer(
            path, loss="mse", optimizer="adam", learning_rate=1e-3, batch_size=8, **options
        )
        trainer.fit(x, y, epochs=epochs, seed=1)
        trainer.export(tmp_path / name)
        if name == "first":
            trainer.save_checkpoint(checkpoint)
    assert (tmp_path / "second").read_bytes() == (tmp_path / "whole").read_bytes()
