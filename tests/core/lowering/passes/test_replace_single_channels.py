"""CONV_2D with groups of channels: LiteRT judges outputs, differences judge gradients."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.judges import difference, litert, odt, random_inputs
from support.lowering import lower
from support.networks import ArrayData, InOrder

from odt.core.export.exporter import export_model
from odt.core.export.model_builder import ModelBuilder
from odt.core.formats.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.core.recipe.lowered_model import lower_model
from odt.core.training.self_test import DIFFERENCES, self_test
from odt.core.training.trainer import Trainer

RELU, SAME = 1, 0
OTHERS = {"RELU", "RESHAPE", "FULLY_CONNECTED"}


def grouped(path: Path, filters: tuple[int, ...], channels: int) -> Path:
    """Writes a model of a convolution with stride 2 and RELU, and a dense layer."""
    b = ModelBuilder("tflite", seed=3)
    x = b.add_input((1, 6, 5, channels))
    bias = b.add_constant(np.full(filters[0], 0.3, np.float32))
    y = b.add_operator(
        "CONV_2D",
        (x, b.add_weight(filters, 9 * filters[3]), bias),
        (1, 3, 3, filters[0]),
        stride_h=2,
        stride_w=2,
        padding=SAME,
        fused_activation_function=RELU,
    )
    flat = b.add_operator(
        "RESHAPE", (y, b.add_constant(np.array([1, -1], np.int32))), (1, 9 * filters[0])
    )
    b.write(path, b.add_dense(flat, 3))
    return path


@pytest.mark.parametrize(
    ("filters", "channels", "ops"),
    [
        ((24, 3, 3, 10), 20, {"CONV_2D": 1}),
        ((6, 3, 3, 2), 6, {"CONV_2D": 1}),
        ((32, 3, 3, 4), 32, {"CONV_2D": 1}),
        ((8, 3, 3, 1), 4, {"TRANSPOSE": 1, "DEPTHWISE_CONV_2D": 1}),
    ],
)
def test_groups_of_channels_train(
    filters: tuple[int, ...], channels: int, ops: dict[str, int], tmp_path: Path
) -> None:
    path = grouped(tmp_path / "m.tflite", filters, channels)
    model, inputs = read_model(str(path)), random_inputs(path, 4)
    found = Counter(node.op for node in lower(model.graph, 2).nodes)
    assert {op: n for op, n in found.items() if op not in OTHERS} == ops
    before = odt(path, inputs)[0]
    assert difference(before, litert(path, inputs)[0]) < 1e-6
    info = TrainingInfo(loss="mean_squared_error", batch_size=4, learning_rate=0.005)
    targets = [before + np.float32(0.5)]
    data = ArrayData(inputs, targets)
    passed = {
        f.what: f.passed for f in self_test(lower_model(model).graphs, info, data, weights=60)
    }
    assert passed[DIFFERENCES]
    with Trainer(model.graph, info) as trainer:
        list(trainer.train(data, InOrder(4), epochs=10))
        weights = trainer.weights()
        moved = [np.abs(a - model.graph.tensors[i].data).max() for i, a in weights.items()]
        assert min(moved) > 1e-3
        export_model(model, weights, tmp_path / "new.tflite")
        predicted = odt(tmp_path / "new.tflite", inputs)[0]
    assert difference(predicted, litert(tmp_path / "new.tflite", inputs)[0]) < 1e-6
    assert difference(predicted, targets[0]) < difference(before, targets[0])
