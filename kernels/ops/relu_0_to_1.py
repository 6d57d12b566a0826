"""RELU_0_TO_1: y = min(max(x, 0), 1), element by element.

dx = dy if 0 < y < 1, else 0 (thus 0 at both bounds, as for RELU6).
"""

from odt.kernels.families.clamp import clamp

OP = clamp("RELU_0_TO_1", 0, 1)
