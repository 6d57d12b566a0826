"""Twenty steps end at the losses and weights of onnxruntime-training 1.19.2.

tools/record_onnxruntime.py wrote the file.
"""

from typing import Any

import numpy as np
import pytest
from support.paths import TESTS

import odt

RECORDED = dict(np.load(TESTS / "golden_onnxruntime/mlp.npz"))
SGD, ADAMW = odt.SGD(0.05), odt.OrtAdamW(0.01)
# Name → loss, targets, optimizer.
CASES: dict[str, tuple[str, str, odt.SGD | odt.OrtAdamW]] = {
    "CrossEntropyLoss, AdamW": ("sparse_categorical_crossentropy", "labels", ADAMW),
    "CrossEntropyLoss, SGD": ("sparse_categorical_crossentropy", "labels", SGD),
    "MSELoss, AdamW": ("mean_squared_error", "values", ADAMW),
    "MSELoss, SGD": ("mean_squared_error", "values", SGD),
    "BCEWithLogitsLoss, SGD": ("binary_crossentropy", "bits", SGD),
    "L1Loss, SGD": ("mean_absolute_error", "values", SGD),
    "decay": ("mean_squared_error", "values", odt.OrtAdamW(0.01, weight_decay=0.1)),
}


WEIGHTS = ("w0", "b0", "w1", "b1")


def at_shape(weights: odt.Arrays, shape: tuple[int, ...]) -> Any:
    """The only weight of this shape."""
    (found,) = (a for a in weights.values() if a.shape == shape)
    return found


@pytest.mark.parametrize("name", CASES)
def test_losses_and_weights_are_those_recorded(name: str) -> None:
    loss, targets, optimizer = CASES[name]
    x, t = RECORDED["x"], RECORDED[targets]
    t = t.astype(np.int32) if targets == "labels" else t
    model: Any = odt.new_model(
        "mlp", input_shape=(6,), hidden=(10,), outputs=3, activation="linear"
    )
    with odt.Trainer(model, loss=loss, optimizer=optimizer, batch_size=8) as trainer:
        weights = {n: at_shape(trainer.weights, RECORDED[n].shape) for n in WEIGHTS}
        for weight, a in weights.items():
            a[...] = RECORDED[weight]
        losses = [trainer.train_on_batch(*batch)["loss"] for batch in zip(x, t, strict=True)]
        np.testing.assert_allclose(losses, RECORDED[f"{name}: losses"], rtol=1e-5)
        evaluated = trainer.test_on_batch(x[0], t[0])["loss"]
        assert evaluated == pytest.approx(RECORDED[f"{name}: evaluated"], rel=1e-5)
        for weight, a in weights.items():
            np.testing.assert_allclose(a, RECORDED[f"{name}: {weight}"], rtol=1e-4, atol=1e-6)
