"""REDUCE_ANY: whether any x is true, over some axes."""

import numpy as np

from odt.kernels.families.reduce import logical

OP = logical("REDUCE_ANY", np.logical_or)
