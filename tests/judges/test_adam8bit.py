"""8-bit Adam ends within 1 % of Adam's loss, with little more than a quarter of its state."""

from pathlib import Path

import numpy as np
import pytest
from support.paths import GOLDEN, MODELS

import odt

NETWORKS = {
    "dense, 102,000 weights": GOLDEN / "mlp_sm/model.circle",
    "convolutional, 35,000 weights": GOLDEN / "mnist/model.circle",
    "depthwise, 23,000 weights": MODELS / "kws-yes-no-dwconv128x32.tflite",
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_loss_is_adams_within_one_percent(name: str) -> None:
    path: Path = NETWORKS[name]
    model = odt.load_model(path)
    rng = np.random.default_rng(0)
    shape, classes = model.inputs[0].shape[1:], model.outputs[0].shape[-1]
    labels = rng.integers(0, classes, 192)
    centers = rng.normal(size=(classes, *shape))
    x = (0.3 * centers[labels] + rng.normal(size=(192, *shape))).astype(np.float32)
    y = np.eye(classes, dtype=np.float32)[labels]
    losses, states = {}, {}
    for optimizer in ("adam", "adam8bit"):
        with odt.Trainer(
            path, loss="categorical_crossentropy", optimizer=optimizer, learning_rate=3e-4
        ) as trainer:
            before = trainer.evaluate(x, y)["loss"]
            trainer.fit(x, y, epochs=4, shuffle=True)
            losses[optimizer] = trainer.evaluate(x, y)["loss"]
            states[optimizer] = trainer.session.build().memory().slots
    print(name, before, losses, states)
    assert losses["adam"] < 0.9 * before
    assert losses["adam8bit"] == pytest.approx(losses["adam"], rel=0.01)
    assert states["adam8bit"] < 0.45 * states["adam"]
