"""ARG_MAX: where along an axis x is greatest; among equals the first."""

import numpy as np

from odt.kernels.families.arg_reduction import argument

OP = argument("ARG_MAX", np.greater)
