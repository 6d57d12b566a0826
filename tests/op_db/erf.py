"""CUSTOM:Erf: reference and samples."""

from math import erf

import numpy as np

from op_db.support.unary import points, row

INFO = row(
    "CUSTOM:Erf",
    lambda x: np.array([erf(v) for v in x.flat]).reshape(x.shape),
    more=(points(*np.linspace(-6, 6, 60)), points(-1e-4, -1e-8, 0, 1e-8, 1e-4)),
)
