"""CUSTOM:Softplus: reference and samples."""

import numpy as np

from op_db.support.unary import points, row

INFO = row(
    "CUSTOM:Softplus",
    lambda x: np.logaddexp(0, x),
    more=(points(-80, -20, -9, 0, 9, 20, 80), points(*np.linspace(-7, 7, 60))),
)
