"""REDUCE_MAX: maximum of x over some axes.

dx = dy / n at each of the n elements equal to the maximum, else 0, as in TensorFlow and PyTorch's
amax.
"""

import numpy as np

from odt.kernels.families.reduce import extreme

OP = extreme("REDUCE_MAX", np.max)
