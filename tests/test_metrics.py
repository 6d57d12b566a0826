"""Metrics; expectations worked out by hand."""

import numpy as np
import pytest

from odt.core.metrics import METRICS, find_metric
from odt.errors import OptionError

Y = np.array([[0.1, 0.7, 0.2], [0.4, 0.4, 0.2], [0.0, 0.1, 0.9], [0.9, 0.1, 0.0]], np.float32)
ONE_HOT = np.eye(3, dtype=np.float32)[[1, 1, 2, 2]]
CASES = {
    "categorical_accuracy": (Y, ONE_HOT, 2 / 4),  # in sample 1 the first of two equals wins
    "sparse_categorical_accuracy": (Y, np.array([1, 1, 2, 2], np.int32), 2 / 4),
    "binary_accuracy": (np.array([[0.6], [0.5]], np.float32), np.ones((2, 1), np.float32), 1 / 2),
    "mean_absolute_error": (
        np.array([[1.0], [4.0]], np.float32),
        np.array([[0.0], [6.0]], np.float32),
        1.5,
    ),
    "mean_squared_error": (
        np.array([[1.0], [4.0]], np.float32),
        np.array([[0.0], [6.0]], np.float32),
        2.5,
    ),
    # residuals 1, 4, 4 of 9; targets 0, 6, 3: mean 3, spread 18
    "r2": (
        np.array([[1.0], [4.0], [5.0]], np.float32),
        np.array([[0.0], [6.0], [3.0]], np.float32),
        1 - 9 / 18,
    ),
}


def test_every_metric_has_a_case() -> None:
    assert set(CASES) == set(METRICS)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("batch", [1, 2, 4])
def test_values_do_not_depend_on_batches(name: str, batch: int) -> None:
    y, t, value = CASES[name]
    metric = METRICS[name]()
    for at in range(0, len(y), batch):
        metric.update(y[at : at + batch], t[at : at + batch])
    assert metric.value() == pytest.approx(value)


def test_many_samples_are_all_seen() -> None:
    y = np.zeros((5000, 2), np.float32)
    y[:1500, 1] = 1
    t = np.tile(np.array([0, 1], np.float32), (5000, 1))
    metric = METRICS["categorical_accuracy"]()
    metric.update(y, t)
    assert metric.value() == 1500 / 5000


def test_a_sample_of_several_positions_counts_once() -> None:
    y, t = np.zeros((1, 2, 2), np.float32), np.zeros((1, 2, 2), np.float32)
    y[0, 1, 1] = t[0, 1, 1] = 1
    t[0, 0, 1] = 0.5
    metric = METRICS["categorical_accuracy"]()
    metric.update(y, t)
    assert metric.value() == 1


def test_metrics_are_found_by_onert_trains_number_and_either_spelling() -> None:
    assert find_metric("0") == find_metric("categorical-accuracy")
    with pytest.raises(OptionError, match="but got accuracy"):
        find_metric("accuracy")
