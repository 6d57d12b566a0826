"""ARG_MAX: index of the largest value along an axis; the first of equal values."""

import numpy as np

from odt.kernels.families.arg_reduction import argument

OP = argument("ARG_MAX", np.greater)
