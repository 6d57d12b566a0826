"""SIGN: reference and samples."""

import numpy as np

from op_db.support.unary import row

# + 0 · x keeps NaN and the type of x
INFO = row("SIGN", lambda x: np.where(x > 0, 1, 0) - (x < 0) + 0 * x, integers=True)
