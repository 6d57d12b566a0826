"""GREATER: y = (a > b), element by element, with a and b broadcast."""

import numpy as np

from odt.kernels.families import compare
from odt.kernels.native.typed import LESS, comparison
from odt.kernels.rows.quantizeddef import QuantizedDef

OP = compare.comparison(
    "GREATER",
    np.greater,
    compiled=comparison(LESS, swapped=True),
    quantized=QuantizedDef(versions={"INT8": 2}),
)
