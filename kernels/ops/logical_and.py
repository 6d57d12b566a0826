"""LOGICAL_AND: y is whether a and b; both are stretched to match from the last axis on."""

import numpy as np

from odt.kernels.families.compare import comparison, infer_logical

OP = comparison("LOGICAL_AND", np.logical_and, infer_logical)
