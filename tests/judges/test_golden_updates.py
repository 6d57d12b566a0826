"""Five steps of each optimizer end at the losses and weights of torch and pytorch-optimizer.

tools/record_updates.py wrote the file.
"""

import json
from typing import Any

import numpy as np
import pytest
from support.paths import GOLDEN_TORCH, TESTS

import odt
from odt.kernels.registry import OPTIMIZERS

RECORDED: dict[str, Any] = json.loads((TESTS / "golden_updates/updates.json").read_text())
CASES: dict[str, dict[str, Any]] = RECORDED["cases"]
ARRAYS = dict(np.load(GOLDEN_TORCH / "mlp.npz"))
SCHEDULES = {
    "chosen": {},
    "samples": {"micro_batch": 1},
    "workers": {"micro_batch": 1, "workers": 2},
}


class Losses(odt.Callback):
    """The loss of each step."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_train_batch_end(self, batch: int, logs: odt.Logs) -> None:
        self.losses.append(logs["loss"])


@pytest.mark.parametrize("split", SCHEDULES)
@pytest.mark.parametrize("name", CASES)
def test_losses_and_weights_are_those_recorded(name: str, split: str) -> None:
    case, seen = CASES[name], Losses()
    options = {"loss": "categorical_crossentropy", "batch_size": RECORDED["batch_size"]}
    options |= case["options"] | SCHEDULES[split]
    with odt.Trainer(GOLDEN_TORCH / "mlp.circle", **options) as trainer:
        trainer.fit(ARRAYS["input0"], ARRAYS["targets"], shuffle=False, callbacks=[seen])
        np.testing.assert_allclose(seen.losses, case["losses"], rtol=1e-5)
        assert trainer.weights.keys() == case["weights"].keys()
        for weight, (total, squares, *first) in case["weights"].items():
            a = np.asarray(trainer.weights[weight], np.float64).reshape(-1)
            shown = [a.sum() / a.size, (a * a).sum() / a.size, *a[: len(first)]]
            wanted = [total / a.size, squares / a.size, *first]
            np.testing.assert_allclose(shown, wanted, rtol=1e-5, atol=1e-5)


def test_every_optimizer_is_recorded() -> None:
    """Two have tests of their own: test_frugal_optimizers.py and test_golden_onnxruntime.py."""
    recorded = {case["options"]["optimizer"] for case in CASES.values()}
    assert recorded | {"adam8bit", "ort_adamw"} == set(OPTIMIZERS)
