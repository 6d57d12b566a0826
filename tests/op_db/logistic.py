"""LOGISTIC: reference and samples."""

import numpy as np

from op_db.support.unary import points, row

INFO = row("LOGISTIC", lambda x: 1 / (1 + np.exp(-x)), more=(points(-60, -9, 9, 60),))
