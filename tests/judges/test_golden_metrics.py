"""Metrics have the values recorded from torchmetrics and scikit-learn, over batches of any size.

tools/record_metrics.py wrote the file.
"""

import json
from typing import Any

import numpy as np
import pytest
from support.paths import TESTS

from odt.core.training.metrics import fitting_metrics
from odt.kernels.families.class_counts import Confusion
from odt.kernels.registry import METRICS
from odt.kernels.rows.lossdef import LABELS
from odt.kernels.rows.metricdef import OutputForm
from odt.kernels.rows.opdef import TensorSpec

RECORDED: dict[str, Any] = json.loads((TESTS / "golden_metrics/metrics.json").read_text())
CASES = {case["kind"]: case for case in RECORDED["cases"]}
VALUES = [(kind, name) for kind, case in CASES.items() for name in case["values"]]
ONE_HOT, SPARSE = "categorical_crossentropy", "sparse_categorical_crossentropy"
LOSSES = {"flag": ["binary_crossentropy"], "flags": ["binary_crossentropy"]}
LOSSES |= {"values": ["mean_squared_error"], "tokens": [SPARSE]}


@pytest.mark.parametrize("batch", [1, 7, 60])
@pytest.mark.parametrize(("kind", "name"), VALUES)
def test_values_are_those_of_torchmetrics_and_scikit_learn(
    kind: str, name: str, batch: int
) -> None:
    case = CASES[kind]
    y = np.array(case["y"], np.float32)
    for loss in LOSSES.get(kind, [ONE_HOT, SPARSE]):
        t = np.array(case["t"], np.int32 if loss == SPARSE else np.float32)
        t = np.eye(y.shape[1], dtype=np.float32)[t.astype(int)] if loss == ONE_HOT else t
        made = fitting_metrics([name], loss, TensorSpec(y.shape[1:], y.dtype))
        (metric,) = [make() for make in made.values()]
        for at in range(0, len(y), batch):
            metric.update(y[at : at + batch], t[at : at + batch])
        for recorded in case["values"][name].values():
            assert metric.value() == pytest.approx(recorded, rel=1e-5, abs=1e-6)


def test_every_metric_is_recorded() -> None:
    recorded = {name for _, name in VALUES}
    accuracies = {"categorical_accuracy", "sparse_categorical_accuracy"}  # both are `accuracy`
    by_hand = {"top_k_accuracy"}  # tests/kernels/test_metrics.py
    assert recorded | accuracies == {*METRICS} - by_hand | {"top_2_accuracy", "accuracy"}


@pytest.mark.parametrize("kind", ["classes", "absent"])
def test_the_confusion_matrix_is_that_of_scikit_learn(kind: str) -> None:
    case = CASES[kind]
    y, t = np.array(case["y"], np.float32), np.array(case["t"], np.int32)
    counts = Confusion(OutputForm(LABELS, y.shape[1]))
    for at in range(0, len(y), 7):
        counts.update(y[at : at + 7], t[at : at + 7])
    assert counts.matrix.tolist() == case["confusion"]
