"""tests/golden_losses is what torch gives today."""

import json

import numpy as np
import pytest
from support.paths import TESTS

pytestmark = pytest.mark.accept


def test_the_recorded_trajectories_are_those_of_torch() -> None:
    from record_losses import records  # torch is installed for this test alone

    recorded = json.loads((TESTS / "golden_losses/losses.json").read_text())
    now = records()
    print(f"torch: {recorded['torch']}, now {now['torch']}")
    for then, case in zip(recorded["cases"], now["cases"], strict=True):
        assert (then["name"], then["options"]) == (case["name"], case["options"])
        for kind in ("plain", "weighted"):
            for name, values in then[kind].items():
                np.testing.assert_allclose(case[kind][name], values, 1e-5, 1e-9)


def test_the_recorded_distillation_is_that_of_torch() -> None:
    from record_distillation import records  # torch is installed for this test alone

    recorded = json.loads((TESTS / "golden_losses/distillation.json").read_text())
    for then, case in zip(recorded["cases"], records()["cases"], strict=True):
        np.testing.assert_allclose(case["losses"], then["losses"], 1e-5, 1e-9)
        for now, values in zip(case["end"], then["end"], strict=True):
            np.testing.assert_allclose(now, values, 1e-5, 1e-9)
