"""ARG_MAX: index of the largest value along an axis; the first of equal values."""

import numpy as np

from odt.kernels.families.arg_reduction import arg_reduction

OP = arg_reduction("ARG_MAX", np.greater)
