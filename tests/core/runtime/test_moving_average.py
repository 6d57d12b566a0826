"""A moving average of the weights against its formula, by the compiled call and by NumPy."""

from typing import Any

import numpy as np
import pytest

from odt.core.runtime.moving_average import MovingAverage
from odt.kernels.rows.opdef import TILE, Array


@pytest.mark.parametrize("dtype", [np.float32, np.float64])  # only float32 has a compiled call
def test_an_average_moves_as_its_formula_says(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    w: Array = np.asarray(rng.normal(size=(3, TILE)), dtype)
    average = MovingAverage({5: w}, 0.9)
    run = average.bind(5, np.empty(TILE, dtype))
    expected = w.astype(np.float64)
    for step in (1, 2, 20, 500):
        w += np.asarray(rng.normal(size=w.shape), dtype)
        average.begin_step(step)
        run()
        decay = min(0.9, (step - 1) / (step + 19))
        expected += (1 - decay) * (w - expected)
        assert np.allclose(average.arrays[5], expected, rtol=1e-6, atol=1e-6)
    kept, ahead = w.copy(), average.arrays[5].copy()
    with average.exchanged():
        assert np.array_equal(w, ahead)
        assert np.array_equal(average.arrays[5], kept)
    assert np.array_equal(w, kept)
    average.reset()
    assert np.array_equal(average.arrays[5], w)
