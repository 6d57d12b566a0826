"""RELU6: y = min(max(x, 0), 6), element by element.

dx = dy if 0 < y < 6, else 0 (thus 0 at both bounds, as in TFLite, PyTorch and onert).
"""

from odt.kernels.families.clamp import clamp
from odt.kernels.rows.quantizeddef import QuantizedDef

OP = clamp(
    "RELU6",
    0,
    6,
    quantized=QuantizedDef(versions={"INT8": 2, "INT16": 3}, int8=True, int16=True),
)
