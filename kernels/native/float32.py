"""Tests for float32, the only dtype of compiled kernels."""

import numpy as np

from odt.kernels.rows.opdef import Specs

FLOAT = np.dtype(np.float32)


def is_float32(s: Specs) -> bool:
    return all(v.dtype == FLOAT and v.size for n, v in s.items() if n.lstrip("d") in "xwby")
