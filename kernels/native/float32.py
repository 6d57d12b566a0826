"""Tests for float32, the dtype of most compiled kernels."""

import numpy as np

from odt.kernels.rows.opdef import Specs

FLOAT = np.dtype(np.float32)


def is_float32(s: Specs) -> bool:
    """Whether x, w, b, y and their gradients, as far as they exist, are float32 and not empty."""
    return all(v.dtype == FLOAT and v.size for n, v in s.items() if n.lstrip("d") in "xwby")
