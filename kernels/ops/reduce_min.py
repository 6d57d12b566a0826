"""REDUCE_MIN: y = the smallest x along axes.

dx = dy where x is y; among n equals each gets dy / n, as in TensorFlow and PyTorch's amax.
"""

import numpy as np

from odt.kernels.families.reduce import extreme

OP = extreme("REDUCE_MIN", np.min)
