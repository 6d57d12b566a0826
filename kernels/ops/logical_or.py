"""LOGICAL_OR: y is whether a or b; both are stretched to match from the last axis on."""

import numpy as np

from odt.kernels.families.compare import comparison, infer_logical

OP = comparison("LOGICAL_OR", np.logical_or, infer_logical)
