"""NOT_EQUAL: y = (a ≠ b), element by element, with a and b broadcast."""

import numpy as np

from odt.kernels.families import compare
from odt.kernels.native.typed import NOT_EQUAL, comparison
from odt.kernels.rows.quantizeddef import QuantizedDef

OP = compare.comparison(
    "NOT_EQUAL",
    np.not_equal,
    compiled=comparison(NOT_EQUAL),
    quantized=QuantizedDef(versions={"INT8": 2}),
)
