"""RESIZE_NEAREST_NEIGHBOR: resizes images; each output is the nearest input.

x (N, H, W, C)    size (2,), constant    y (N, *size, C)

Along each axis, with s = inputs / outputs, or (inputs − 1) / (outputs − 1) with align_corners:
output o is the input ⌊o s⌋, or ⌊(o + ½) s⌋ with half_pixel_centers, or ⌊o s + ½⌋ with
align_corners, or ⌊(o + ½) s + ½⌋ with both, limited to the image. o s is computed in float32, as in
TFLite, because the rounding affects the result. dx sums dy over the outputs that are copies of the
input.

Source: ResizeNearestNeighborOptions in the TFLite schema and TFLite's reference kernel.
"""

import numpy as np

from odt.kernels.families.resize import ResizeAttrs, resize, step
from odt.kernels.rows.opdef import Array
from odt.kernels.rows.quantizeddef import QuantizedDef


def weigh(attrs: ResizeAttrs, size: int, out: int) -> Array:
    """Returns the weights (out, size) of the inputs for each output: 1 for the nearest one."""
    outputs = np.arange(out, dtype=np.float32)
    if attrs.half_pixel_centers:
        outputs += np.float32(0.5)
    at = (outputs * np.float32(step(attrs, size, out))).astype(np.float64)
    nearest = (at + (0.5 if attrs.align_corners else 0.0)).astype(int)
    weights = np.zeros((out, size))
    weights[np.arange(out), np.minimum(nearest, size - 1)] = 1
    return weights


OP = resize(
    "RESIZE_NEAREST_NEIGHBOR",
    weigh,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 4}, int8=True, int16=True, same="output", values="within"
    ),
)
