"""ARG_MAX: where along an axis x is greatest; among equals the first."""

import numpy as np

from odt.kernels.arguments import argument

OP = argument("ARG_MAX", np.greater)
