"""REDUCE_ALL: whether all x are true, over some axes."""

import numpy as np

from odt.kernels.families.reduce import logical

OP = logical("REDUCE_ALL", np.logical_and)
