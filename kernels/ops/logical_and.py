"""LOGICAL_AND: y = a and b, element by element, with a and b broadcast."""

import numpy as np

from odt.kernels.families import compare
from odt.kernels.native.typed import AND, comparison

OP = compare.comparison(
    "LOGICAL_AND", np.logical_and, compare.infer_logical, compiled=comparison(AND)
)
