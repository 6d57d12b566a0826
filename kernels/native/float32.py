"""Tests for float32, the dtype of most compiled kernels."""

from functools import cache

import numpy as np

from odt.kernels.rows.opdef import Specs

FLOAT = np.dtype(np.float32)
# Sizes by which bindings choose between kernels that round differently: the floats of the widest
# vector, and the windows of a tile. They are the same for all targets, whose limits may be lower.
VECTOR, TILE_WINDOWS = 16, 128


def is_float32(s: Specs) -> bool:
    """Whether x, w, b, y and their gradients, as far as they exist, are float32 and not empty."""
    for name, spec in s.items():
        if _is_operand(name) and not (spec.dtype == FLOAT and all(spec.shape)):
            return False
    return True


@cache
def _is_operand(name: str) -> bool:
    return name.lstrip("d") in "xwby"
