"""First weights of new classes."""

import numpy as np
import pytest

import odt.core.training.new_class_rows as rows
from odt.core.training.new_class_rows import REGULARIZATION, new_class_rows
from odt.kernels.rows.opdef import Array

RNG = np.random.default_rng(0)
FEATURES = [RNG.normal(3 * np.eye(6)[k], 1, (40 + k, 6)).astype(np.float32) for k in range(4)]


def test_the_row_is_the_regularized_discriminant() -> None:
    weights, bias = RNG.normal(size=(3, 6)).astype(np.float32), np.zeros(3, np.float32)
    w, b = new_class_rows(weights, bias, FEATURES)
    covariance = np.mean([np.cov(x.T) for x in FEATURES], axis=0)  # the formula with F×F matrices
    covariance *= 1 - REGULARIZATION
    covariance += REGULARIZATION / (1 - REGULARIZATION) * np.trace(covariance) / 6 * np.eye(6)
    means = [x.mean(axis=0) for x in FEATURES]
    direction = np.linalg.solve(covariance, means[3] - np.mean(means[:3], axis=0))
    expected = direction / np.linalg.norm(direction) * np.linalg.norm(weights, axis=1).mean()
    np.testing.assert_allclose(w[3], expected, rtol=1e-4)
    between = (means[3] + np.mean(means[:3], axis=0)) / 2
    logits = w @ between + b
    np.testing.assert_allclose(logits[3], logits[:3].max(), rtol=1e-4)
    np.testing.assert_array_equal(w[:3], weights)
    np.testing.assert_array_equal(b[:3], bias)


def test_new_classes_are_recognized_before_training() -> None:
    old = np.float32(3) * np.eye(6, dtype=np.float32)[:2]
    w, b = new_class_rows(old, np.zeros(2, np.float32), FEATURES)
    right = [np.mean((x @ w.T + b).argmax(axis=1) == k) for k, x in enumerate(FEATURES)]
    assert min(right) > 0.7


def test_memory_is_bounded_for_many_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def count(deviations: Array, vector: Array) -> Array:
        sizes.append(len(deviations))
        return vector

    monkeypatch.setattr(rows, "solve", count)
    many = [RNG.normal(size=(20, 6)).astype(np.float32) for _ in range(800)]
    new_class_rows(np.ones((799, 6), np.float32), np.zeros(799, np.float32), many)
    new_class_rows(np.ones((8, 6), np.float32), np.zeros(8, np.float32), many[:9])
    assert sizes == [rows.MAX_ROWS, 9 * 20]


def test_one_sample_without_others_is_imprinted() -> None:
    x = np.array([[0, 3, 4]], np.float32)
    none = np.empty((0, 3), np.float32)
    w, _ = new_class_rows(
        2 * np.eye(3, dtype=np.float32), np.zeros(3, np.float32), [none] * 3 + [x]
    )
    np.testing.assert_allclose(w[3], [0, 1.2, 1.6], rtol=1e-6)  # norm 2, direction of the sample
