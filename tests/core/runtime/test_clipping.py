"""Gradient clipping: the formula, the same bits with and without compiled kernels."""

from collections.abc import Sequence

import numpy as np
import pytest

from odt.core.runtime.clipping import Clipping
from odt.kernels.native.library import instruction_sets
from odt.kernels.rows.opdef import TILE, Array

SIZES = 1, 7, 8, 1000, TILE - 1, TILE + 3, 3 * TILE + 12


def gradients(dtype: str = "float32") -> list[Array]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=n).astype(dtype) for n in SIZES]


def clipped(clipping: Clipping, arrays: Sequence[Array]) -> list[Array]:
    """The gradients of the second of two equal steps."""
    copies = [np.zeros_like(a) for a in arrays]
    runs = clipping.bind(copies, clipping.memory(len(copies)))
    for _ in range(2):
        for copy, a in zip(copies, arrays, strict=True):
            np.copyto(copy, a)
        for run in runs:
            run()
    return copies


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_clipping_by_norm_scales_all_gradients_by_one_factor(dtype: str) -> None:
    before = gradients(dtype)
    norm = float(np.sqrt(sum(np.square(g.astype(np.longdouble)).sum() for g in before)))
    for g, after in zip(before, clipped(Clipping(norm=2.0), before), strict=True):
        np.testing.assert_allclose(after, g * (2 / norm), rtol=3e-7)
    for g, after in zip(before, clipped(Clipping(norm=norm * 1.001), before), strict=True):
        np.testing.assert_array_equal(after, g)


def test_clipping_by_value_limits_each_value() -> None:
    for g, after in zip(gradients(), clipped(Clipping(value=0.5), gradients()), strict=True):
        np.testing.assert_array_equal(after, np.maximum(np.minimum(g, 0.5), -0.5))


@pytest.mark.skipif(not instruction_sets(), reason="nothing is compiled")
@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    "clipping",
    [Clipping(norm=2.0), Clipping(norm=1e6), Clipping(value=0.5), Clipping(value=1e39)],
    ids=str,
)
def test_all_kernels_clip_to_the_same_bits(
    clipping: Clipping, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for kernels in ("numpy", *instruction_sets()):
        monkeypatch.setenv("ODT_KERNELS", kernels)
        results.append(clipped(clipping, gradients()))
    for other in results[1:]:
        for first, after in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(first, after)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_gradients_that_are_not_finite_stay_so(value: float) -> None:
    arrays = [*gradients(), np.array([value], np.float32)]
    after = clipped(Clipping(norm=1.0), arrays)
    assert not all(np.isfinite(a).all() for a in after)
