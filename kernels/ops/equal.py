"""EQUAL: y = (a = b), element by element, with a and b broadcast."""

import numpy as np

from odt.kernels.families import compare
from odt.kernels.native.typed import EQUAL, comparison
from odt.kernels.rows.quantizeddef import QuantizedDef

OP = compare.comparison(
    "EQUAL",
    np.equal,
    compiled=comparison(EQUAL),
    quantized=QuantizedDef(versions={"INT8": 2, "INT16": 4}),
)
