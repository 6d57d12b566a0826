"""Losses and gradients, with and without weights, along trajectories recorded from torch.

tools/record_losses.py wrote the file.
"""

import json
from typing import Any

import numpy as np
import pytest
from support.op_run import Case
from support.paths import ROOT

from odt.kernels.loss_text import format_loss
from odt.kernels.registry import LOSSES
from odt.kernels.rows.opdef import Array

RECORDS = json.loads((ROOT / "tests/golden_losses/losses.json").read_text(encoding="utf-8"))
CLOSE = 1e-5


def step(case: dict[str, Any], y: Array, scale: Array) -> tuple[float, Array]:
    row = LOSSES[case["name"]]
    logits = {"from_logits": True} if row.fuses_with else {}
    t = np.array(case["t"])
    inputs = {"x": y, "t": t.astype(np.int32 if t.ndim == 1 else y.dtype), "scale": scale}
    made = Case.make(row.op, row.op.attrs({**case["options"], **logits}, {}), inputs)
    return float(made.forward()["loss"][0]), made.gradient("x")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["plain", "weighted"])
@pytest.mark.parametrize(
    "case", [pytest.param(c, id=format_loss(c["name"], c["options"])) for c in RECORDS["cases"]]
)
def test_five_steps_are_those_of_torch(
    case: dict[str, Any], kind: str, dtype: type[np.floating]
) -> None:
    recorded, y = case[kind], np.array(case["x"], dtype)
    weights = np.array(recorded["weights"], dtype)
    scale = weights if kind == "weighted" else weights[:1]
    for loss in recorded["losses"]:
        found, dy = step(case, y, scale / dtype(len(y)))
        np.testing.assert_allclose(found, loss, CLOSE, CLOSE)
        y = y - dtype(RECORDS["rate"]) * dy
    np.testing.assert_allclose(y, recorded["end"], CLOSE, CLOSE)


def test_every_loss_is_recorded() -> None:
    assert {case["name"] for case in RECORDS["cases"]} == set(LOSSES)
