"""LESS_EQUAL: y = (a ≤ b), element by element, with a and b broadcast."""

import numpy as np

from odt.kernels.families import compare
from odt.kernels.native.typed import LESS_EQUAL, comparison
from odt.kernels.rows.quantizeddef import QuantizedDef

OP = compare.comparison(
    "LESS_EQUAL",
    np.less_equal,
    compiled=comparison(LESS_EQUAL),
    quantized=QuantizedDef(versions={"INT8": 2}),
)
