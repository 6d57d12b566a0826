"""LESS: y = (a < b), element by element, with a and b broadcast."""

import numpy as np

from odt.kernels.families.compare import comparison

OP = comparison("LESS", np.less)
