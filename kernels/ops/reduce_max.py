"""REDUCE_MAX: maximum of x over some axes.

dx = dy / n at each of the n elements equal to the maximum, else 0, as in TensorFlow and PyTorch's
amax.
"""

import numpy as np

from odt.kernels.families.reduce import extreme
from odt.kernels.rows.quantizeddef import QuantizedDef

OP = extreme(
    "REDUCE_MAX",
    np.max,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 3},
        int8=True,
        same="output",
        values="moved",
        checks_scales=True,
    ),
)
