"""LOGICAL_AND: y = a and b, element by element, with a and b broadcast."""

import numpy as np

from odt.kernels.families.compare import comparison, infer_logical

OP = comparison("LOGICAL_AND", np.logical_and, infer_logical)
