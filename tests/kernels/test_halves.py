"""Rows of halves are read as the floats of NumPy."""

import numpy as np
import pytest

from odt.kernels.native.float32 import from_halves
from odt.kernels.native.library import instruction_sets, run_flushed

ROWS, WIDTH = 16, 4096


@pytest.mark.parametrize("kernels", instruction_sets())
def test_every_half_becomes_its_float(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a thread in which subnormal numbers are zero, and in rows that fill no vector."""
    monkeypatch.setenv("ODT_KERNELS", kernels)
    halves = np.arange(ROWS * WIDTH, dtype=np.uint16).view(np.float16)
    at = np.random.default_rng(0).permutation(ROWS)
    for width in (WIDTH, 13):
        table = np.ascontiguousarray(halves.reshape(ROWS, WIDTH)[:, :width])
        y = np.full((ROWS, width), np.nan, np.float32)
        run_flushed(from_halves(table, at, y))
        expected = table[at].astype(np.float32)
        assert np.array_equal(np.isnan(y), np.isnan(expected))
        numbers = ~np.isnan(y)
        assert y[numbers].tobytes() == expected[numbers].tobytes()
