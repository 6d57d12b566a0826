"""Losses of 200 steps with products of bfloat16 stay within 1 % of those of float32.

The losses compared are means of 20 steps: single ones of MobileNetV2, which trains on five batches
of eight samples, differ by up to 2 %. The MLP has too few rows in a micro-batch to round.
"""

import json

import numpy as np
import pytest
from support.accept_data import complete

import odt
from odt.kernels.native.library import lacks_bf16

pytestmark = [
    pytest.mark.accept,
    pytest.mark.skipif(bool(lacks_bf16()), reason="this machine cannot compute it"),
]
STEPS, WINDOW = 200, 20
RATES = {"mlp": 0.01, "mnist": 0.01, "resnet8": 0.01, "mbv2_96": 0.001}


@pytest.mark.parametrize("name", RATES)
def test_losses_stay_within_one_percent(name: str) -> None:
    folder = complete("golden", name)
    model = odt.load_model(folder / "model.circle")
    x, y = (
        np.fromfile(folder / f"{kind}.bin", np.float32).reshape(-1, *tensors[0].shape[1:])
        for kind, tensors in (("input", model.inputs), ("expected", model.outputs))
    )
    batch = json.loads((folder / "cases.json").read_text())["cases"][0]["batch_size"]
    means = []
    for precision in ("float32", "bf16"):
        with odt.Trainer(
            model, loss="categorical_crossentropy", optimizer=odt.SGD(RATES[name]),
            batch_size=batch, precision=precision,
        ) as trainer:  # fmt: skip
            first = (k * batch % (len(x) - batch + 1) for k in range(STEPS))
            losses = [
                trainer.train_on_batch(x[k : k + batch], y[k : k + batch])["loss"] for k in first
            ]
        means.append(np.array(losses).reshape(-1, WINDOW).mean(1))
    errors = np.abs(means[1] / means[0] - 1)
    print(f"{name}: means of {WINDOW} losses within {errors.max():.1e}")
    assert errors.max() < 0.01
