"""CUSTOM:Atan: reference and samples."""

from math import atan

import numpy as np

from op_db.support.unary import points, row

INFO = row(
    "CUSTOM:Atan",
    lambda x: np.array([atan(v) for v in x.flat]).reshape(x.shape),
    more=(points(-100, -1, -1e-4, 0, 1e-4, 1, 100),),
)
