"""Training of ONNX files has the losses of ONNX Runtime, and exports hold the trained weights."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.paths import TESTS

import odt

FOLDER = TESTS / "golden/onnx"
LOSSES = json.loads((FOLDER / "losses.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_losses_and_weights_are_those_of_onnx_runtime(
    tmp_path: Path, name: str, optimizer: str
) -> None:
    """The final weights of one network are recorded."""
    expected = LOSSES[name][optimizer]
    update: odt.Optimizer = odt.SGD(0.1)
    if optimizer == "AdamW":
        update = odt.OrtAdamW(0.01, epsilon=1e-6, weight_decay=0)
    loss = odt.SparseCategoricalCrossentropy()
    with (
        np.load(FOLDER / f"{name}.npz") as data,
        odt.Trainer(FOLDER / f"{name}.onnx", loss=loss, optimizer=update, batch_size=8) as trainer,
    ):
        losses = [
            trainer.train_on_batch(data[f"{k}_0"], data[f"{k}_1"])["loss"]
            for k in range(len(expected))
        ]
        trainer.export(tmp_path / "trained.onnx")
    np.testing.assert_allclose(losses, expected, atol=2e-6)
    trained = odt.load_model(tmp_path / "trained.onnx").parameters
    before = odt.load_model(FOLDER / f"{name}.onnx").parameters
    assert trained.keys() == before.keys()
    assert all((trained[n] != before[n]).any() for n in before)
    if name == "mlp":
        with np.load(FOLDER / "mlp_final.npz") as final:
            for tensor, values in trained.items():
                np.testing.assert_allclose(values, final[f"{optimizer}/{tensor}"], atol=1e-5)
