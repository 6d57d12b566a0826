"""RELU_0_TO_1: reference and samples."""

import numpy as np

from op_db.support.unary import points, row

INFO = row(
    "RELU_0_TO_1",
    lambda x: np.where(x < 0, 0, np.where(x > 1, 1, x)),
    integers=True,
    more=(points(-9, -0.1, 0.1, 0.9, 1.1, 9),),
)
