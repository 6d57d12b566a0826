"""INTEGER_DEPTHWISE_CONV_2D: convolution of each quantized channel with its own filters.

x (N, H, W, C)    w (1, KH, P·KW, C·M)    b (C·M,)    y (N, OH, OW, C·M)
m, start (C·M,) rounded up to 16 values

y[…, cM+m] = clip(rint((Σᵢⱼ window(x)[i, j, c] w[i, j, cM+m] + b) m) + zero point of y), with
m = s_x s_w / s_y. b contains the products of the zero point of x with w. Windows read that zero
point outside the images. Filters that do not fit into int8, as those of uint8 less their zero
point, are the sum of P = 2 that do, side by side.
Source: TFLite's 8-bit quantization specification.
"""

from collections.abc import Mapping

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.integer_convolution import (
    PRODUCTS,
    IntegerConvAttrs,
    check_constants,
    geometry,
    integer_conv_attrs,
    product_type,
)
from odt.kernels.families.requantize import (
    Tensors,
    largest,
    product_constants,
    real_type,
    round_sums,
    sum_type,
)
from odt.kernels.geometry.conv_geometry import Axes
from odt.kernels.geometry.im2col import PaddedImages, fitting_images
from odt.kernels.geometry.quantize import limits
from odt.kernels.geometry.window import clear_border, fill_inside, windows
from odt.kernels.native import integer
from odt.kernels.rows.opdef import Arithmetic, Array, Compiled, Kernel, OpDef, Specs, TensorSpec


def constants(tensors: Tensors) -> Mapping[str, Array]:
    """Returns the constants of the product, with w as a sum of filters in int8 where possible."""
    products = product_constants(tensors, 3)
    w = products["w"]
    summands = [w]
    if w.dtype != np.int8 and _fits(w, 1):
        summands = [w.astype(np.int8)]
    elif w.dtype != np.int8 and _fits(w, 2):
        summands = [half.astype(np.int8) for half in (w >> 1, w - (w >> 1))]
    return {**products, "w": np.concatenate(summands, axis=2)}


def _fits(w: Array, count: int) -> bool:
    """Whether w is the sum of so many filters in int8."""
    lo, hi = (count * n for n in limits(np.dtype(np.int8)))
    return bool(lo <= w.min(initial=0) <= w.max(initial=0) <= hi)


def infer(attrs: IntegerConvAttrs, s: Specs) -> Specs:
    x, w = s["x"], s["w"]
    if (
        len(x.shape) != 4
        or len(w.shape) != 4
        or w.shape[0] != 1
        or not w.size
        or not x.shape[3]
        or w.shape[3] % x.shape[3]
    ):
        raise ShapeError(
            f"x must be (N, H, W, C) and w (1, KH, KW, C·M), w not empty, but got x {x}, w {w}"
        )
    check_constants(s, w.shape[3])
    h, v = attrs.windows.axes(x, TensorSpec(attrs.filters, w.dtype))
    return {"y": TensorSpec((x.shape[0], h.out, v.out, w.shape[3]), attrs.to.dtype)}


def workspace(attrs: IntegerConvAttrs, s: Specs) -> Specs:
    """Returns the workspace for a tile of images: the padded images and the results."""
    _, source = geometry(attrs, s).values()
    w = s["w"]
    height, width, units = attrs.filters[1:]
    floats = product_type(s["x"], largest(w.dtype), w.shape[1] * w.shape[2])
    images = fitting_images(source, floats.itemsize)
    part = (images, *s["y"].shape[1:])
    return {
        "filters": TensorSpec((height, width, units), floats),
        "padded": source.padded(images, floats),
        "products": TensorSpec(part, floats),
        "sums": TensorSpec(part, sum_type(s["x"].dtype)),
        "real": TensorSpec(part, real_type(s["x"].dtype)),
    }


def forward(
    attrs: IntegerConvAttrs,
    *,
    x: Array,
    w: Array,
    b: Array,
    m: Array,
    start: Array,
    y: Array,
    axes: Axes,
    source: PaddedImages,
    filters: Array,
    padded: Array,
    products: Array,
    sums: Array,
    real: Array,
) -> None:
    h, v = (a.reading for a in axes)
    channels = source.channels
    summands = w[0].reshape(len(filters), -1, *filters.shape[1:], copy=False)
    np.copyto(filters, summands[:, 0])
    for k in range(1, summands.shape[1]):
        np.add(filters, summands[:, k], out=filters)
    taps = filters.reshape(*filters.shape[:2], channels, -1, copy=False)
    clear_border(padded, source.h, source.w, attrs.zero)
    for n in range(0, source.images, len(padded)):
        images = slice(n, min(n + len(padded), source.images))
        inside = fill_inside(padded, x[images], source.h[0], source.w[0])
        floats, integers, reals = (a[: len(inside)] for a in (products, sums, real))
        view = windows(inside, h, v)
        results = floats.reshape(*floats.shape[:3], channels, -1, copy=False)
        np.einsum("nhwijc,ijcm->nhwcm", view, taps, out=results)
        np.copyto(integers, floats, casting="unsafe")
        np.add(integers, b, out=integers)
        round_sums(integers, m[: len(b)], attrs.to, reals, y[images])


def flops(attrs: IntegerConvAttrs, s: Specs) -> int:
    return 2 * s["y"].size * attrs.filters[1] * attrs.filters[2]


OP = OpDef(
    "INTEGER_DEPTHWISE_CONV_2D",
    inputs=PRODUCTS,
    infer=infer,
    forward=Kernel(
        forward,
        reads=PRODUCTS,
        writes=("y",),
        workspace=workspace,
        prepare=geometry,
        compiled=Compiled(integer.depthwise, integer.depthwise_fits, prepare=geometry),
    ),
    grads={},
    stops=PRODUCTS,
    attrs=integer_conv_attrs,
    keeps_activation=True,
    flops=flops,
    arithmetic=Arithmetic.DEPTHWISE,
)
