"""tests/golden_metrics is what torchmetrics and scikit-learn give today."""

import json

import numpy as np
import pytest
from support.paths import TESTS

pytestmark = pytest.mark.accept


def test_the_recorded_values_are_those_of_torchmetrics_and_scikit_learn() -> None:
    from record_metrics import records  # scikit-learn is installed for this test alone

    recorded = json.loads((TESTS / "golden_metrics/metrics.json").read_text())
    now = records()
    print(f"{recorded['versions']}, now {now['versions']}")
    for then, case in zip(recorded["cases"], now["cases"], strict=True):
        assert (then["kind"], then["confusion"]) == (case["kind"], case["confusion"])
        for name in ("y", "t"):
            np.testing.assert_allclose(case[name], then[name], 1e-12)
        for name, values in then["values"].items():
            assert case["values"][name] == pytest.approx(values, rel=1e-6)
