"""SWISH: reference and samples."""

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db.support.unary import points, row


def swish(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


INFO = row("SWISH", swish, more=(points(-9, -3.1, -1, 0.5, 1, 3.1, 9),))
