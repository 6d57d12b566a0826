"""ARG_MIN: where along an axis x is smallest; among equals the first."""

import numpy as np

from odt.kernels.families.arg_reduction import argument

OP = argument("ARG_MIN", np.less)
