"""HARD_SWISH: reference and samples."""

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db.support.unary import points, row


def hard_swish(x: Array) -> Array:
    return np.asarray(x * np.clip(x + 3, 0, 6) / 6)


INFO = row("HARD_SWISH", hard_swish, more=(points(-9, -3.1, -2.9, 2.9, 3.1, 9),))
