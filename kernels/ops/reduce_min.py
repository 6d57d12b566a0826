"""REDUCE_MIN: minimum of x over some axes.

dx = dy / n at each of the n elements equal to the minimum, else 0, as in TensorFlow and PyTorch's
amin.
"""

import numpy as np

from odt.kernels.families.reduce import extreme
from odt.kernels.rows.quantizeddef import QuantizedDef

OP = extreme(
    "REDUCE_MIN",
    np.min,
    quantized=QuantizedDef(versions={"INT8": 2, "INT16": 3}, values="moved", checks_scales=True),
)
