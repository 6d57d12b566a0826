"""RESIZE_NEAREST_NEIGHBOR: each output is the input nearest to it.

x (N, H, W, C)    size (2,), constant    y (N, *size, C)

Along each axis, with s = inputs / outputs, or (inputs − 1) / (outputs − 1) with align_corners:
input of output o = ⌊o s⌋, ⌊(o + ½) s⌋ with half_pixel_centers, ⌊o s + ½⌋ with align_corners;
at most the last one. TFLite computes o s in float32, which decides what is nearest; so it is done
here. dx sums dy over the outputs that took the input.

Source: ResizeNearestNeighborOptions in the TFLite schema and TFLite's reference kernel.
"""

import numpy as np

from odt.kernels.families.resize import ResizeAttrs, resize, step
from odt.kernels.opdef import Array


def weigh(attrs: ResizeAttrs, size: int, out: int) -> Array:
    o = np.arange(out, dtype=np.float32) + np.float32(0.5 * attrs.half_pixel_centers)
    at = (o * np.float32(step(attrs, size, out))).astype(np.float64)
    nearest = (at + 0.5 * attrs.align_corners).astype(int)
    weights = np.zeros((out, size))
    weights[np.arange(out), np.minimum(nearest, size - 1)] = 1
    return weights


OP = resize("RESIZE_NEAREST_NEIGHBOR", weigh)
