"""Every real model that should train: forward as LiteRT's, falling loss, export as LiteRT's."""

import numpy as np
import pytest
from accept_data import complete
from judges import difference, litert, odt, random_inputs
from networks import ArrayData, InOrder

from odt.core.exporter import export_model
from odt.core.reader import read_model
from odt.core.trainer import Trainer
from odt.core.training_info import TrainingInfo
from odt.kernels.opdef import Array

pytestmark = pytest.mark.accept

NAMES = (
    "mlperf-tiny-ad-autoencoder",
    "mlperf-tiny-resnet8-cifar10",
    "mlperf-tiny-vww-mobilenetv1-0.25-96",
    "teachable-machine-mobilenetv2-0.35-fruit",
    "tflm-hello-world-sine-float",
    "tflm-magic-wand-float",
    "tflm-mnist-lstm-float",
    "mnist-dense-512-10",
    "kws-yes-no-conv60x40",
    "kws-yes-no-dwconv128x32",
    "planestrike-policy-dense",
    "nntrainer-conv4-60classes-backbone",
)


def targets_for(name: str, inputs: list[Array], outputs: Array) -> tuple[str, Array]:
    """A task of the model's own kind: the loss, and something it does not do yet."""
    if "autoencoder" in name:
        return "mean_squared_error", inputs[0]
    if "sine" in name:
        return "mean_squared_error", np.cos(inputs[0])
    if outputs.min() >= 0 and np.allclose(outputs.sum(axis=-1), 1, atol=1e-4):
        wanted = (outputs.argmax(axis=-1) + 1) % outputs.shape[-1]
        return "categorical_crossentropy", np.eye(outputs.shape[-1], dtype=np.float32)[wanted]
    return "mean_squared_error", outputs + np.float32(0.5)


@pytest.mark.parametrize("name", NAMES)
def test_forward_training_and_export(name: str, tmp_path: object) -> None:
    path = complete("data", "models", f"{name}.tflite")
    inputs = random_inputs(path, 8)
    before = litert(path, inputs)[0]
    forward = difference(odt(path, inputs)[0], before)
    assert forward < 1e-4
    loss, targets = targets_for(name, inputs, before)
    model = read_model(str(path))
    info = TrainingInfo(loss=loss, batch_size=8, learning_rate=1e-4)
    out = f"{tmp_path}/out.tflite"
    with Trainer(model.graph, info) as trainer:
        data = ArrayData(inputs, [targets])
        losses = [e.training.loss for e in trainer.fit(data, InOrder(8), epochs=20)]
        export_model(model, trainer.buffers(), out, "tflite")
    assert losses[-1] < losses[0]
    exported = difference(odt(out, inputs)[0], litert(out, inputs)[0])
    assert exported < 1e-4
    print(
        f"{name}: forward {forward:.1e}, loss {losses[0]:.4g} → {losses[-1]:.4g}, "
        f"export {exported:.1e}"
    )
