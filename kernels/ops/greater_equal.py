"""GREATER_EQUAL: y = (a ≥ b), element by element, with a and b broadcast."""

import numpy as np

from odt.kernels.families.compare import comparison
from odt.kernels.rows.quantizeddef import QuantizedDef

OP = comparison(
    "GREATER_EQUAL",
    np.greater_equal,
    quantized=QuantizedDef(versions={"INT8": 2, "INT16": 3}),
)
