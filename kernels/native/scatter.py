"""Compiled scatter-add: rows added to the rows of a table that indices select."""

from collections.abc import Callable

import numpy as np

from odt.kernels.native.binding import bind
from odt.kernels.native.float32 import FLOAT
from odt.kernels.opdef import Array, Attrs, Specs


def fits(attrs: Attrs, s: Specs) -> bool:
    """Whether values are float32; NumPy's indices have eight bytes on 64-bit systems only."""
    is_64_bit, dy = np.dtype(np.intp).itemsize == 8, s.get("dy")
    return is_64_bit and dy is not None and dy.dtype == FLOAT and dy.size > 0


def scatter_add(rows: Array, at: Array, table: Array) -> Callable[[], None]:
    """Computes table[at[r]] += rows[r] from 0; see src/scatter_body.h.

    Args:
        rows: (R…, width…).
        at: (R…,) int64, checked: rows of the table.
        table: (entries…, width…).
    """
    width = rows.size // at.size
    return bind("scatter_add", rows, at, table, at.size, width, table.size)
