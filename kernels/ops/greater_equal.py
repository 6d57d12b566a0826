"""GREATER_EQUAL: y = (a ≥ b), element by element, with a and b broadcast."""

import numpy as np

from odt.kernels.families import compare
from odt.kernels.native.typed import LESS_EQUAL, comparison
from odt.kernels.rows.quantizeddef import QuantizedDef

OP = compare.comparison(
    "GREATER_EQUAL",
    np.greater_equal,
    compiled=comparison(LESS_EQUAL, swapped=True),
    quantized=QuantizedDef(versions={"INT8": 2, "INT16": 3}),
)
