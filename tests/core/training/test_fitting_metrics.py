"""Metrics by name, for the targets of a loss."""

import numpy as np
import pytest

from odt.core.training.metrics import find_metric, fitting_metrics, full_name
from odt.errors import OptionError
from odt.kernels.rows.opdef import TensorSpec

F32 = np.dtype(np.float32)

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
    assert list(found) == [name]


@pytest.mark.parametrize(
    ("name", "loss", "shape", "fitting"),
    [
        (
            "categorical_accuracy",
            SPARSE,
            (10,),
            "`sparse_categorical_accuracy`, `top_k",
        ),
        (
            "mean_squared_error",
            SPARSE,
            (10,),
            "`sparse_categorical_accuracy`, `top_k",
        ),
        ("sparse_categorical_accuracy", CCE, (10,), "`categorical_accuracy`, "),
        ("binary_accuracy", CCE, (10,), "`categorical_accuracy`, "),
        ("sparse_categorical_accuracy", MSE, (10,), "`categorical_accuracy`, `binary_"),
        ("categorical_accuracy", MSE, (1,), "`binary_accuracy`, `precision`, "),
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


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("top-5-accuracy", "top_5_accuracy"),
        ("top_12_accuracy", "top_12_accuracy"),
        ("top-k-accuracy", "top_5_accuracy"),
        ("sparse_top_k_categorical_accuracy", "top_5_accuracy"),
        ("RMSE", "root_mean_squared_error"),
        ("f1", "f1_score"),
        ("AUC", "auc"),
        ("top_accuracy", None),
        ("auc_5_auc", None),
        ("top__accuracy", None),
    ],
)
def test_metrics_are_found_by_their_words_and_numbers(text: str, name: str | None) -> None:
    found = find_metric(text)
    assert (found and full_name(*found)) == name


def test_two_numbers_are_two_metrics() -> None:
    found = fitting_metrics(["top_2_accuracy", "top_4_accuracy"], CCE, TensorSpec((10,), F32))
    assert list(found) == ["top_2_accuracy", "top_4_accuracy"]


def test_a_number_of_all_classes_is_refused() -> None:
    with pytest.raises(
        OptionError, match="k of `top_5_accuracy` must be from 1 to 2 for 3 classes, but got 5"
    ):
        fitting_metrics(["top_k_accuracy"], SPARSE, TensorSpec((3,), F32))


def test_metrics_of_classes_read_the_targets_of_every_loss() -> None:
    y = np.array([[2.0, -1.0], [0.2, 0.3]], np.float32)
    for loss, t in (
        (CCE, np.array([[1, 0], [0, 1]], np.float32)),
        (SPARSE, np.array([0, 1], np.int32)),
        ("binary_crossentropy", np.array([[1, 0], [1, 1]], np.float32)),
        (MSE, np.array([[1, 0], [0, 1]], np.float32)),
    ):
        found = fitting_metrics(["f1_score"], loss, TensorSpec((2,), F32), logits=True)
        metric = found["f1_score"]()
        metric.update(y, t)
        assert metric.value() == 1
