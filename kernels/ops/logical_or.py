"""LOGICAL_OR: y = a or b, element by element, with a and b broadcast."""

import numpy as np

from odt.kernels.families import compare
from odt.kernels.native.typed import OR, comparison

OP = compare.comparison("LOGICAL_OR", np.logical_or, compare.infer_logical, compiled=comparison(OR))
