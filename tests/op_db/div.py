"""DIV: reference and samples."""

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db.support.binary import row


def quotient(a: Array, b: Array) -> Array:
    """Integers are rounded towards 0, as in C."""
    return a / b if a.dtype.kind == "f" else np.trunc(a / b).astype(a.dtype)


INFO = row("DIV", quotient)
