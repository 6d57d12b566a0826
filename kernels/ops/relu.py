"""RELU: y = max(x, 0), element by element.

dx = dy if y > 0, else 0 (thus 0 at x = 0, as in TFLite, PyTorch and onert).
"""

import numpy as np

from odt.kernels.families.clamp import clamp
from odt.kernels.rows.quantizeddef import QuantizedDef

OP = clamp(
    "RELU",
    0,
    np.inf,
    quantized=QuantizedDef(versions={"INT8": 2, "UINT8": 2, "INT16": 3}, int8=True, int16=True),
)
