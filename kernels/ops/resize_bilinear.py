"""RESIZE_BILINEAR: resizes images by bilinear interpolation of the four nearest inputs.

x (N, H, W, C)    size (2,), constant    y (N, *size, C)

Along each axis, with s = inputs / outputs, or (inputs − 1) / (outputs − 1) with align_corners:
output o is at position p = o s, or (o + ½) s − ½ with half_pixel_centers, limited to the image, and
is (1 − p + ⌊p⌋) x[⌊p⌋] + (p − ⌊p⌋) x[⌊p⌋ + 1]. dx sums dy times these weights.

Source: ResizeBilinearOptions in the TFLite schema and TFLite's reference kernel.
"""

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.resize import ResizeAttrs, resize, step
from odt.kernels.families.resize import infer as resize_infer
from odt.kernels.rows.opdef import Array, Specs
from odt.kernels.rows.quantizeddef import QuantizedDef


def weigh(attrs: ResizeAttrs, size: int, out: int) -> Array:
    """Returns the weights (out, size) of the inputs for each output."""
    half = 0.5 if attrs.half_pixel_centers else 0.0
    at = np.clip((np.arange(out) + half) * step(attrs, size, out) - half, 0, size - 1)
    lower = at.astype(int)
    upper = np.minimum(lower + 1, size - 1)
    weights = np.zeros((out, size))
    weights[np.arange(out), lower] = 1 - (at - lower)
    weights[np.arange(out), upper] += at - lower
    return weights


def infer(attrs: ResizeAttrs, s: Specs) -> Specs:
    if attrs.align_corners and attrs.half_pixel_centers:
        raise ShapeError("align_corners excludes half_pixel_centers, but got both")
    return resize_infer(attrs, s)


OP = resize(
    "RESIZE_BILINEAR",
    weigh,
    infer,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 4},
        int8=True,
        int16=True,
        same="output",
        values="within",
        one_scale=True,
    ),
)
