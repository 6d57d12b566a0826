"""The error function against the standard library's."""

import math

import numpy as np
import pytest

from odt.kernels.families.erf import erf
from odt.kernels.rows.opdef import Array


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 2e-15), (np.float32, 4e-7)])
def test_every_range_and_both_signs(dtype: type, rtol: float) -> None:
    most = np.finfo(dtype).max
    ends: Array = np.array([1e-30, 0.46875, most, -most, np.inf, -np.inf], dtype)
    x = np.concatenate([np.linspace(-8, 8, 4001, dtype=dtype), ends])
    out, u, v = (np.full_like(x, np.nan) for _ in range(3))
    erf(x, out, u, v, np.zeros(x.shape, bool))
    wanted = np.array([math.erf(float(a)) for a in x])
    np.testing.assert_allclose(out, wanted, rtol=rtol, atol=0)


def test_zeros_stay_zero_and_nan_stays_nan() -> None:
    x = np.array([0.0, -0.0, np.nan])
    out, u, v = (np.empty_like(x) for _ in range(3))
    erf(x, out, u, v, np.zeros(3, bool))
    np.testing.assert_array_equal(out, [0, 0, np.nan])
