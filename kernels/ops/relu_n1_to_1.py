"""RELU_N1_TO_1: y = min(max(x, −1), 1), element by element.

dx = dy if −1 < y < 1, else 0 (thus 0 at both bounds, as for RELU6).
"""

from odt.kernels.families.clamp import clamp
from odt.kernels.rows.quantizeddef import QuantizedDef

OP = clamp(
    "RELU_N1_TO_1",
    -1,
    1,
    quantized=QuantizedDef(int8=True),
)
