"""NOT_EQUAL: y = (a ≠ b), element by element, with a and b broadcast."""

import numpy as np

from odt.kernels.families.compare import comparison
from odt.kernels.rows.quantizeddef import QuantizedDef

OP = comparison(
    "NOT_EQUAL",
    np.not_equal,
    quantized=QuantizedDef(versions={"INT8": 2}),
)
