"""ELU: reference and samples."""

import numpy as np

from op_db.support.unary import points, row

INFO = row("ELU", lambda x: np.where(x > 0, x, np.exp(x) - 1), more=(points(-60, -9, 9, 60),))
