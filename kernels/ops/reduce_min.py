"""REDUCE_MIN: minimum of x over some axes.

dx = dy / n at each of the n elements equal to the minimum, else 0, as in TensorFlow and PyTorch's
amin.
"""

import numpy as np

from odt.kernels.families.reduce import extreme

OP = extreme("REDUCE_MIN", np.min)
