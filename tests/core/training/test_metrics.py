"""Metrics; expectations worked out by hand."""

import numpy as np
import pytest

from odt.core.training.metrics import METRICS, fitting_metrics
from odt.errors import DataError, OptionError
from odt.kernels.opdef import TensorSpec

F32 = np.dtype(np.float32)
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


def test_positions_of_a_sample_count_each() -> None:
    y, t = np.zeros((1, 2, 2), np.float32), np.zeros((1, 2, 2), np.float32)
    y[0, 0, 0] = y[0, 1, 1] = t[0, 0, 0] = t[0, 1, 0] = 1
    metric = METRICS["categorical_accuracy"]()
    metric.update(y, t)
    assert metric.value() == 1 / 2


def test_binary_accuracy_refuses_other_numbers_than_0_and_1() -> None:
    metric = METRICS["binary_accuracy"]()
    with pytest.raises(DataError, match=r"targets must be 0 or 1, but got 3\.7\. "):
        metric.update(np.ones((2, 1), np.float32), np.array([[1], [3.7]], np.float32))


CCE, MSE = "categorical_crossentropy", "mean_squared_error"
SPARSE = "sparse_categorical_crossentropy"


@pytest.mark.parametrize(
    ("loss", "shape", "name"),
    [
        (CCE, (10,), "categorical_accuracy"),
        (SPARSE, (10,), "sparse_categorical_accuracy"),
        (MSE, (10,), "categorical_accuracy"),
        (MSE, (1,), "binary_accuracy"),
        (MSE, (), "binary_accuracy"),
        (MSE, (8, 8, 1), "binary_accuracy"),
    ],
)
def test_accuracy_is_the_one_that_fits(loss: str, shape: tuple[int, ...], name: str) -> None:
    found = fitting_metrics(["accuracy"], loss, TensorSpec(shape, F32))
    assert found == {name: METRICS[name]}


@pytest.mark.parametrize(
    ("name", "loss", "shape", "fitting"),
    [
        ("categorical_accuracy", SPARSE, (10,), "Give `sparse_categorical_accuracy`."),
        ("mean_squared_error", SPARSE, (10,), "Give `sparse_categorical_accuracy`."),
        ("sparse_categorical_accuracy", CCE, (10,), "Give `categorical_accuracy` or"),
        ("binary_accuracy", CCE, (10,), "Give `categorical_accuracy` or"),
        ("sparse_categorical_accuracy", MSE, (10,), "Give `categorical_accuracy` or `binary_"),
        ("categorical_accuracy", MSE, (1,), "Give `binary_accuracy` or `mean_absolute_error` or"),
    ],
)
def test_a_metric_for_other_targets_is_refused_and_those_that_fit_are_named(
    name: str, loss: str, shape: tuple[int, ...], fitting: str
) -> None:
    with pytest.raises(OptionError) as e:
        fitting_metrics(["r2", name] if loss != SPARSE else [name], loss, TensorSpec(shape, F32))
    assert str(e.value).startswith(f"`metrics=`: targets of `{name}` must be ")
    assert fitting in str(e.value)


def test_several_metrics_keep_their_order() -> None:
    found = fitting_metrics(["r2", "accuracy", "mean_squared_error"], MSE, TensorSpec((3,), F32))
    assert list(found) == ["r2", "categorical_accuracy", "mean_squared_error"]
