"""LOGICAL_OR: y = a or b, element by element, with a and b broadcast."""

import numpy as np

from odt.kernels.families.compare import comparison, infer_logical

OP = comparison("LOGICAL_OR", np.logical_or, infer_logical)
