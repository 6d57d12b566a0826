"""float32, the dtype of most compiled kernels: tests for it, and rows of float16 in it."""

from functools import cache

import numpy as np

from odt.kernels.native.binding import Calls, bind
from odt.kernels.rows.opdef import Array, Specs

FLOAT = np.dtype(np.float32)
# Sizes by which bindings choose between kernels that round differently: the floats of the widest
# vector, and the windows of a tile. They are the same for all targets, whose limits may be lower.
VECTOR, TILE_WINDOWS = 16, 128


def is_float32(s: Specs) -> bool:
    """Whether x, w, b, y and their gradients, as far as they exist, are float32 and not empty."""
    for name, spec in s.items():
        if not (spec.dtype == FLOAT and all(spec.shape)) and _is_operand(name):
            return False
    return True


def from_halves(table: Array, at: Array, y: Array) -> Calls:
    """Returns a call that computes y[r] = table[at[r]].

    Args:
        table: (entries, width) float16.
        at: (R,) int64.
        y: (R, width) float32.
    """
    return bind("gather_halves", table, y, at, at.size, table.shape[1])


@cache
def _is_operand(name: str) -> bool:
    return name.lstrip("d") in "xwby"
