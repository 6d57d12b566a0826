"""MEAN: reference and samples."""

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db.support.reduce import HALVES, row


def mean(m: Array) -> Array:
    """A mean of integers is rounded towards 0."""
    found = np.asarray(m.sum(1) / m.shape[1])
    return found if m.dtype.kind == "f" else np.trunc(found).astype(m.dtype)


INFO = row("MEAN", mean, more=HALVES)
