"""ARG_MAX: index of the largest value along an axis; the first of equal values."""

import numpy as np

from odt.kernels.families.arg_reduction import arg_reduction
from odt.kernels.rows.quantizeddef import QuantizedDef

OP = arg_reduction(
    "ARG_MAX",
    np.greater,
    quantized=QuantizedDef(versions={"INT8": 2}),
)
