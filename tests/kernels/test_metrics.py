"""Every metric against values worked out by hand, and against its definition on random data."""

import itertools
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odt.errors import DataError, OptionError
from odt.kernels.metrics.auc import softmax
from odt.kernels.registry import METRICS
from odt.kernels.rows.lossdef import LABELS
from odt.kernels.rows.metricdef import CLASS_ROWS, FLAGS, NUMBERS, Metric, OutputForm
from odt.kernels.rows.opdef import Array


def column(*values: float) -> Array:
    return np.array(values, np.float32)[:, np.newaxis]


Y = np.array([[0.1, 0.7, 0.2], [0.4, 0.4, 0.2], [0.0, 0.1, 0.9], [0.9, 0.1, 0.0]], np.float32)
CLASSES = np.array([1, 1, 2, 2], np.int32)  # 1, 0, 2, 0 are predicted: the first of two equals
ONE_HOT = np.eye(3, dtype=np.float32)[CLASSES]
FLAG_Y, FLAG_T = column(0.6, 0.5, 0.9, 0.7), column(1, 1, 1, 0)  # 1, 0, 1, 1 are predicted
# name → form of the targets, outputs, targets, value, number k if the name has one
CASES: dict[str, tuple[str, Array, Array, float, *tuple[int, ...]]] = {
    "categorical_accuracy": (CLASS_ROWS, Y, ONE_HOT, 2 / 4),
    "sparse_categorical_accuracy": (LABELS, Y, CLASSES, 2 / 4),
    "binary_accuracy": (FLAGS, column(0.6, 0.5), column(1, 1), 1 / 2),
    # class 1 of sample 1 comes second, class 2 of sample 3 last
    "top_k_accuracy": (LABELS, Y, CLASSES, 3 / 4, 2),
    # probabilities of the labels: 0.7, 0.4, 0.9, and 0, which counts as 1e-20
    "perplexity": (LABELS, Y, CLASSES, (0.7 * 0.4 * 0.9 * 1e-20) ** -0.25),
    # of classes 0, 1, 2 right: 0 of 2, 1 of 1, 1 of 1
    "precision": (CLASS_ROWS, Y, ONE_HOT, (0 + 1 + 1) / 3),
    # of classes 0, 1, 2 found: 0 of 0, 1 of 2, 1 of 2
    "recall": (LABELS, Y, CLASSES, (0 + 1 / 2 + 1 / 2) / 3),
    "f1_score": (FLAGS, FLAG_Y, FLAG_T, 2 * 2 / (3 + 3)),
    # pairs of a positive and the negative: 0.6 and 0.5 are smaller than 0.7, 0.9 larger
    "auc": (FLAGS, FLAG_Y, FLAG_T, 1 / 3),
    "mean_absolute_error": (NUMBERS, column(1, 4), column(0, 6), 1.5),
    "mean_squared_error": (NUMBERS, column(1, 4), column(0, 6), 2.5),
    "root_mean_squared_error": (NUMBERS, column(1, 4), column(0, 6), math.sqrt(2.5)),
    # residuals 1, 4, 4 of 9; targets 0, 6, 3: mean 3, spread 18
    "r2": (NUMBERS, column(1, 4, 5), column(0, 6, 3), 1 - 9 / 18),
}


def make(name: str, form: str, y: Array, *k: int, logits: bool = False) -> Metric:
    return METRICS[name].make(OutputForm(form, y.shape[-1], logits), *k)


def measure(name: str, form: str, y: Array, t: Array, *k: int, **more: Any) -> float:
    metric = make(name, form, y, *k, **more)
    metric.update(y, t)
    return metric.value()


def test_every_metric_has_a_case() -> None:
    assert set(CASES) == set(METRICS)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("batch", [1, 2, 4])
def test_values_do_not_depend_on_batches(name: str, batch: int) -> None:
    form, y, t, value, *k = CASES[name]
    metric = make(name, form, y, *k)
    for at in range(0, len(y), batch):
        metric.update(y[at : at + batch], t[at : at + batch])
    assert metric.value() == pytest.approx(value)


@pytest.mark.parametrize("name", METRICS)
def test_positions_of_a_sample_count_as_samples_do(name: str) -> None:
    form, y, t, _, *k = CASES[name]
    y, t = (a[:2].reshape(1, 2, *a.shape[1:]) for a in (y, t))
    flat = measure(name, form, y[0], t[0], *k)
    assert measure(name, form, y, t, *k) == pytest.approx(flat, nan_ok=True)


@pytest.mark.parametrize("name", ["precision", "recall", "f1_score", "auc", "top_k_accuracy"])
def test_labels_and_one_hot_rows_give_the_same(name: str) -> None:
    k = (2,) if name == "top_k_accuracy" else ()
    found = {
        measure(name, form, Y, t, *k) for form, t in [(CLASS_ROWS, ONE_HOT), (LABELS, CLASSES)]
    }
    assert len(found) == 1


def test_the_perplexity_of_a_guess_is_the_number_of_classes() -> None:
    y, t = np.full((6, 7), -3.0, np.float32), np.arange(6, dtype=np.int32)
    assert measure("perplexity", LABELS, y, t, logits=True) == pytest.approx(7)
    x = 5 * np.random.default_rng(1).normal(size=(30, 7)).astype(np.float32)
    t = np.arange(30, dtype=np.int32) % 7
    found = measure("perplexity", LABELS, x, t, logits=True)
    assert found == pytest.approx(measure("perplexity", LABELS, softmax(x), t), rel=1e-5)
    wrong = np.array([[0, 1e4]], np.float32)
    assert measure("perplexity", LABELS, wrong, np.zeros(1, np.int32), logits=True) == math.inf


@pytest.mark.parametrize("name", METRICS)
def test_rows_are_enough_for_some_metrics(name: str) -> None:
    """They give what outputs give, and leave out the same labels."""
    rng = np.random.default_rng(4)
    y, t = rng.dirichlet(np.ones(4), 50).astype(np.float32), np.full(50, -1, np.int32)
    t[:40] = rng.integers(0, 4, 40)
    if LABELS not in METRICS[name].fits:
        return
    k = (2,) if METRICS[name].k else ()
    metric = make(name, LABELS, y, *k)
    if metric.by_row:
        terms = -np.log(y[np.arange(50), t])
        for rows in (slice(20), slice(20, 50)):
            metric.update_rows(terms[rows], y.argmax(1)[rows].astype(np.int32), t[rows])
        assert metric.value() == pytest.approx(measure(name, LABELS, y, t, *k), rel=1e-6)
    assert metric.by_row == (name not in ("auc", "top_k_accuracy"))
    assert measure(name, LABELS, y, t, *k) == measure(name, LABELS, y[:40], t[:40], *k)


def test_many_samples_are_all_seen() -> None:
    y = np.zeros((5000, 2), np.float32)
    y[:1500, 1] = 1
    t = np.tile(np.array([0, 1], np.float32), (5000, 1))
    assert measure("categorical_accuracy", CLASS_ROWS, y, t) == 1500 / 5000


def test_top_1_is_the_accuracy_also_of_equal_outputs() -> None:
    y = np.random.default_rng(0).integers(0, 3, (200, 4)).astype(np.float32)
    t = np.arange(200, dtype=np.int32) % 4
    accuracy = measure("sparse_categorical_accuracy", LABELS, y, t)
    assert measure("top_k_accuracy", LABELS, y, t, 1) == accuracy


@pytest.mark.parametrize("k", [0, 3, 5])
def test_top_k_refuses_a_k_that_no_class_can_miss(k: int) -> None:
    with pytest.raises(
        OptionError, match=f"k of `top_{k}_accuracy` must be from 1 to 2 for 3 classes, but got"
    ):
        make("top_k_accuracy", LABELS, Y, k)


@pytest.mark.parametrize("name", ["binary_accuracy", "precision", "recall", "f1_score", "auc"])
def test_flags_other_than_0_and_1_are_refused(name: str) -> None:
    with pytest.raises(DataError, match=r"targets must be 0 or 1, but got 3\.7\. "):
        measure(name, FLAGS, column(1, 1), column(1, 3.7))


def test_the_threshold_of_logits_is_0() -> None:
    logits, flags = column(0.3, -0.2, 2.0), column(1, 0, 1)
    for name in ("binary_accuracy", "precision", "recall", "f1_score"):
        assert measure(name, FLAGS, logits, flags, logits=True) == 1
        assert measure(name, FLAGS, 1 / (1 + np.exp(-logits)), flags) == 1


def test_auc_of_logits_is_that_of_their_softmax() -> None:
    x = 5 * np.random.default_rng(1).normal(size=(30, 3)).astype(np.float32)
    t = np.arange(30, dtype=np.int32) % 3
    found = measure("auc", LABELS, x, t, logits=True)
    assert found == measure("auc", LABELS, softmax(x), t) != measure("auc", LABELS, x, t)


@pytest.mark.parametrize("t", [0, 1])
def test_auc_of_a_single_class_is_not_defined(t: int) -> None:
    assert math.isnan(measure("auc", FLAGS, FLAG_Y, np.full_like(FLAG_T, t)))
    assert math.isnan(make("auc", FLAGS, FLAG_Y).value())
    ignored = np.full((3,), -1, np.int32)
    assert math.isnan(measure("auc", LABELS, np.ones((3, 2), np.float32), ignored))


@pytest.mark.parametrize(("form", "width"), [(FLAGS, 1), (LABELS, 10)])
def test_auc_keeps_no_more_bytes_than_it_says(form: str, width: int) -> None:
    n, batch = 40_000, 1000
    y = np.random.default_rng(0).random((n, width), np.float32)
    t = np.arange(n, dtype=np.int32) % 10 if form == LABELS else (y > 0.3).astype(np.float32)
    tracemalloc.start()
    try:
        metric = make("auc", form, y)
        for at in range(0, n, batch):
            metric.update(y[at : at + batch], t[at : at + batch])
        metric.value()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < metric.nbytes(y.size) + 100_000
    assert make("precision", form, y).nbytes(y.size) == 0


def naive_auc(scores: Array, positive: Array) -> float:
    """Fraction of the pairs of a positive and a negative in which the positive scores higher."""
    pairs = list(itertools.product(scores[positive], scores[~positive]))
    return sum((p > n) + (p == n) / 2 for p, n in pairs) / len(pairs) if pairs else math.nan


def naive(name: str, predicted: Array, true: Array, k: Any) -> float:
    """A figure of one class, from its definition; 0 where that divides by 0."""
    a, b = predicted == k, true == k
    both = int((a & b).sum())
    precision, recall = both / max(int(a.sum()), 1), both / max(int(b.sum()), 1)
    f1 = 2 * precision * recall / (precision + recall) if both else 0.0
    return {"precision": precision, "recall": recall, "f1_score": f1}[name]


@settings(max_examples=60)
@given(st.integers(2, 5), st.integers(1, 30), st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_metrics_of_classes_follow_their_definitions(
    classes: int, samples: int, seed: int, batch: int
) -> None:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, (samples, classes)).astype(np.float32)  # many ties
    t = rng.integers(0, classes, samples).astype(np.int32)
    found = {}
    for name in ("precision", "recall", "f1_score", "auc"):
        metric = make(name, LABELS, y)
        for at in range(0, samples, batch):
            metric.update(y[at : at + batch], t[at : at + batch])
        found[name] = metric.value()
    best = y.argmax(axis=1)
    occurs = sorted({*best.tolist(), *t.tolist()})
    expected = {
        name: float(np.mean([naive(name, best, t, k) for k in occurs]))
        for name in ("precision", "recall", "f1_score")
    }
    areas = [naive_auc(y[:, k], t == k) for k in range(classes)]
    defined = [a for a in areas if not math.isnan(a)]
    expected["auc"] = float(np.mean(defined)) if defined else math.nan
    assert found == pytest.approx(expected, nan_ok=True)


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_metrics_of_flags_count_all_flags_together(labels: int, samples: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 5, (samples, labels)).astype(np.float32) / 4
    t = rng.integers(0, 2, (samples, labels)).astype(np.float32)
    for name in ("precision", "recall", "f1_score"):
        expected = naive(name, y.ravel() > 0.5, t.ravel() > 0, True)
        assert measure(name, FLAGS, y, t) == pytest.approx(expected)
    expected = naive_auc(y.ravel(), t.ravel() > 0)
    assert measure("auc", FLAGS, y, t) == pytest.approx(expected, nan_ok=True)
