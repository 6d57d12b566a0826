"""ABS: reference and samples."""

import numpy as np

from op_db.support.unary import row

INFO = row("ABS", lambda x: np.where(x < 0, -x, x), integers=True)
