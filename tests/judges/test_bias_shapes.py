"""Biases that a file stores as (1, O): LiteRT reads them as vectors, before and after training."""

from pathlib import Path
from typing import Any

import numpy as np
from model_builder import ModelBuilder
from support.integer_files import QuantizedBuilder, full_range, odt_integers
from support.judges import difference, litert, odt
from support.litert_integers import litert_integers
from support.networks import ArrayData, InOrder

from odt.core.export.exporter import export_model
from odt.core.formats.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.core.recipe.lowered_model import lower_model
from odt.core.training.trainer import Trainer

STRIDES: dict[str, Any] = {"stride_w": 1, "stride_h": 1}


def trained(path: Path, out: Path) -> None:
    """Trains a model for three steps, and exports it."""
    model = lower_model(read_model(path))
    info = TrainingInfo(loss="mean_squared_error", batch_size=4, learning_rate=0.01)
    x = np.random.default_rng(0).normal(size=(4, 5, 5, 2)).astype(np.float32)
    with Trainer(model.graphs, info) as trainer:
        data = ArrayData([x], [np.ones((4, 3), np.float32)])
        losses = [e.training.loss for e in trainer.train(data, InOrder(4), epochs=3)]
        export_model(model.file, trainer.weights(), out)
    assert losses[-1] < losses[0]


def test_biases_of_a_float_file(tmp_path: Path) -> None:
    net = ModelBuilder("tflite", seed=1)
    x = net.add_input((1, 5, 5, 2))
    b = [net.add_constant(net.rng.normal(size=(1, n)).astype(np.float32)) for n in (4, 3)]
    w = net.add_weight((4, 3, 3, 2), 18)
    x = net.add_operator("CONV_2D", (x, w, b[0]), (1, 5, 5, 4), **STRIDES)
    w = net.add_weight((3, 100), 100)
    net.write(tmp_path / "m.tflite", net.add_operator("FULLY_CONNECTED", (x, w, b[1]), (1, 3)))
    trained(tmp_path / "m.tflite", tmp_path / "out.tflite")
    inputs = [np.random.default_rng(1).normal(size=(4, 5, 5, 2)).astype(np.float32)]
    before, after = (litert(tmp_path / name, inputs)[0] for name in ("m.tflite", "out.tflite"))
    assert np.abs(after - before).max() > 0.01
    assert difference(odt(tmp_path / "m.tflite", inputs)[0], before) < 1e-5
    assert difference(odt(tmp_path / "out.tflite", inputs)[0], after) < 1e-5


def test_biases_of_an_integer_file(tmp_path: Path) -> None:
    net = QuantizedBuilder(seed=1)
    x = net.operator("QUANTIZE", (net.add_input((1, 5, 5, 2)),), (1, 5, 5, 2), 0.02)
    b = net.add_constant(np.arange(3, dtype=np.int32).reshape(1, 3) * 1000)
    net.quantize(b, [8e-5], [0])
    w = net.weights((3, 50), [0.004])
    y = net.operator("FULLY_CONNECTED", (x, w, b), (1, 3), 0.05)
    net.write(tmp_path / "m.tflite", net.add_operator("DEQUANTIZE", (y,), (1, 3)))
    trained(tmp_path / "m.tflite", tmp_path / "out.tflite")
    inputs = full_range(read_model(tmp_path / "m.tflite"), 4)
    results = []
    for name in ("m.tflite", "out.tflite"):
        ours, theirs = (f(tmp_path / name, inputs) for f in (odt_integers, litert_integers))
        assert abs(ours[y].reshape(-1).astype(int) - theirs[y].reshape(-1)).max() <= 1
        results.append(theirs[y])
    assert (results[0] != results[1]).any()


def test_the_axis_of_a_vector_is_its_only_one(tmp_path: Path) -> None:
    """Older converters store axis 3, of the weights of DEPTHWISE_CONV_2D, which LiteRT refuses."""
    for axis in (0, 3):
        net = QuantizedBuilder(seed=1)
        x = net.activation((1, 5, 5, 2), 0.02)
        w = net.weights((1, 3, 3, 2), [0.004, 0.002], 3)
        b = net.add_constant(np.array([500, -700], np.int32))
        net.quantize(b, [8e-5, 4e-5], [0, 0], axis)
        depthwise = {**STRIDES, "depth_multiplier": 1}
        y = net.operator("DEPTHWISE_CONV_2D", (x, w, b), (1, 5, 5, 2), 0.05, **depthwise)
        net.write(tmp_path / f"{axis}.tflite", y)
    inputs = full_range(read_model(tmp_path / "0.tflite"), 4)
    ours, theirs = (
        odt_integers(tmp_path / "3.tflite", inputs),
        litert_integers(tmp_path / "0.tflite", inputs),
    )
    assert abs(ours[y].reshape(-1).astype(int) - theirs[y].reshape(-1)).max() <= 1
