"""LiteRT as judge of our forward pass and of the files we write."""

from pathlib import Path

import numpy as np
import pytest
from support.judges import difference, litert, odt, random_inputs
from support.networks import ArrayData, InOrder
from support.paths import MODELS

from odt.core.export.exporter import export_model
from odt.core.formats.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.core.training.trainer import Trainer

NAMES = (
    "kws-yes-no-conv60x40",
    "kws-yes-no-dwconv128x32",
    "mlperf-tiny-resnet8-cifar10",
    "mlperf-tiny-vww-mobilenetv1-0.25-96",
    "planestrike-policy-dense",
    "tflm-hello-world-sine-float",
    "tflm-magic-wand-float",
    "tflm-mnist-lstm-float",
)


@pytest.mark.parametrize("name", NAMES)
def test_forward_training_and_export_agree_with_litert(name: str, tmp_path: Path) -> None:
    """Same outputs to 1e-4 of their range before training and after; the loss falls."""
    path = MODELS / f"{name}.tflite"
    inputs = random_inputs(path, 8)
    before = litert(path, inputs)
    assert difference(odt(path, inputs)[0], before[0]) < 1e-4
    model = read_model(str(path))
    rng = np.random.default_rng(1)
    targets = before[0] + 0.1 * rng.standard_normal(before[0].shape, np.float32)
    info = TrainingInfo(loss="mean_squared_error", batch_size=8, learning_rate=1e-5)
    with Trainer(model.graph, info) as trainer:
        data = ArrayData(inputs, [targets])
        losses = [e.training.loss for e in trainer.train(data, InOrder(8), epochs=10)]
        out = tmp_path / "out.tflite"
        export_model(model, trainer.weights(), str(out), "tflite")
    assert losses[-1] < losses[0]
    after = litert(out, inputs)
    assert difference(odt(out, inputs)[0], after[0]) < 1e-4
    assert np.abs(after[0] - before[0]).max() > 0
