"""Five steps of a student along a trajectory recorded from torch (tools/record_distillation.py)."""

import json
from typing import Any

import numpy as np
import pytest
from support.paths import TESTS

import odt

RECORDS = json.loads((TESTS / "golden_losses/distillation.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("form", ["logits", "probabilities"])
@pytest.mark.parametrize("case", RECORDS["cases"], ids=lambda c: f"T={c['temperature']}")
def test_five_steps_are_those_of_torch(case: dict[str, Any], form: str) -> None:
    x, labels = np.array(case["x"], np.float32), np.array(case["labels"])
    outputs = np.array(case["teacher"])
    if form == "probabilities":
        outputs = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    teacher = odt.Teacher(
        outputs=outputs.astype(np.float32), temperature=case["temperature"], weight=case["weight"]
    )
    model = odt.new_model("mlp", input_shape=(4,), outputs=3, hidden=(5,))
    y = np.eye(3, dtype=np.float32)[labels]
    with odt.Trainer(
        model, optimizer=odt.SGD(RECORDS["rate"]), batch_size=len(x), teacher=teacher
    ) as trainer:
        shapes = {np.shape(w): np.array(w) for w in case["start"]}
        for name, values in trainer.weights.items():
            trainer.weights[name] = shapes[values.shape]
        history = trainer.fit(x, y, epochs=len(case["losses"]), fine_tune=False)
        np.testing.assert_allclose(history.history["loss"], case["losses"], rtol=1e-5)
        ends = {np.shape(w): np.array(w) for w in case["end"]}
        for values in trainer.weights.values():
            np.testing.assert_allclose(values, ends[values.shape], rtol=1e-5, atol=1e-5)
