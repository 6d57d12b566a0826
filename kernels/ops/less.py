"""LESS: y = (a < b), element by element, with a and b broadcast."""

import numpy as np

from odt.kernels.families import compare
from odt.kernels.native.typed import LESS, comparison
from odt.kernels.rows.quantizeddef import QuantizedDef

OP = compare.comparison(
    "LESS",
    np.less,
    compiled=comparison(LESS),
    quantized=QuantizedDef(versions={"INT8": 2, "INT16": 3}),
)
