"""Ranges of activations, by values that are computed beforehand."""

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from odt.core.training.ranges import METHODS, TAIL, Range, measure
from odt.kernels.rows.opdef import Array

SAMPLES = 40


def measured(tensors: list[Array], method: str) -> Range:
    """The range of a tensor of which each batch of two samples is one array."""
    return all_measured(tensors, method)[7]


def all_measured(tensors: list[Array], method: str) -> Mapping[int, Range]:
    """The range of tensor 7 as for `measured`, if it has one."""

    def run(data: object, order: object) -> Iterator[tuple[int, Array]]:
        for a in tensors:
            copy = a.copy()
            yield 7, copy
            copy.fill(0)  # the memory of a tensor is used again

    trace: Any = SimpleNamespace(batch=2, run=run)
    data: Any = None
    ranges, means = measure(trace, data, range(2 * len(tensors)), method, 256)
    np.testing.assert_allclose(means[7], np.mean(tensors, axis=(0, 1), dtype=np.float64), rtol=1e-5)
    return ranges


@pytest.mark.parametrize("ascending", [True, False])
def test_percentiles_leave_out_the_largest_and_the_smallest_values(ascending: bool) -> None:
    values = np.random.default_rng(0).normal(size=SAMPLES * 20_000).astype(np.float32)
    values = np.sort(values) if ascending else values
    found = measured(list(values.reshape(SAMPLES, -1, 4)), "percentile")
    cut = int(TAIL * values.size)
    assert cut == 8
    assert (found.lo, found.hi) == (np.sort(values)[cut], np.sort(values)[-1 - cut])


def test_few_values_have_the_range_of_all() -> None:
    values = np.random.default_rng(0).normal(size=(SAMPLES, 5, 4)).astype(np.float32)
    both = [measured(list(values), method) for method in ("percentile", "minmax")]
    assert both[0] == both[1] == Range(float(values.min()), float(values.max()))


@pytest.mark.parametrize(("value", "wanted"), [(3.0, (0.0, 3.0)), (-2.0, (-2.0, 0.0))])
def test_a_range_contains_zero(value: float, wanted: tuple[float, float]) -> None:
    values = np.full((4, 100_000, 1), value, np.float32)
    found = measured(list(values), "percentile")
    assert (found.lo, found.hi) == wanted


def test_integers_have_the_range_of_all() -> None:
    values = np.random.default_rng(0).integers(0, 200, (4, 9, 5)).astype(np.uint8)
    assert measured(list(values), "percentile") == Range(0.0, float(values.max()))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_have_no_range(method: str, batch: int, value: float) -> None:
    values = np.random.default_rng(0).normal(size=(4, 5, 4)).astype(np.float32)
    values[batch, 1, 3] = value
    assert not all_measured(list(values), method)
