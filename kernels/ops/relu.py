"""RELU: y = max(x, 0), element by element.

dx = dy where y > 0, else 0 (so 0 at the kink, as in TFLite, PyTorch and onert).
"""

import numpy as np

from odt.kernels.families.clamp import clamp

OP = clamp("RELU", 0, np.inf)
