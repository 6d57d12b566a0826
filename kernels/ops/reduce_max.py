"""REDUCE_MAX: see kernels/extremes.py."""

import numpy as np

from odt.kernels.extremes import extreme

OP = extreme("REDUCE_MAX", np.max)
