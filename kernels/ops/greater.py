"""GREATER: y is whether a > b; both are stretched to match from the last axis on."""

import numpy as np

from odt.kernels.families.compare import comparison

OP = comparison("GREATER", np.greater)
