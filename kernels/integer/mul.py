"""INTEGER_MUL: y = a b of quantized tensors, which broadcast as in NumPy.

y = clip(rint((a − z_a) (b − z_b) m) + z_y), with m = s_a s_b / s_y. For int16, m has 31 bits, and
the product is rounded twice, as `multiplied` in kernels/geometry/fixed_point.py does. These are the
bits of TFLite's kernel.
Source: TFLite's 8-bit quantization specification.
"""

from collections.abc import Mapping

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.families.binary import BINARY, mixes_samples
from odt.kernels.families.integer_sum import broadcast
from odt.kernels.families.requantize import (
    FLOAT32,
    Rounding,
    check_factors,
    clip_sums,
    quantized,
    round_sums,
    rounding,
)
from odt.kernels.geometry.axes import same
from odt.kernels.geometry.fixed_point import fixed_multiplier, multiply
from odt.kernels.rows.opdef import Array, Kernel, OpDef, Options, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class MulAttrs:
    """Zero points of a and b, the quotient of the scales, and the rounding of y.

    Attributes:
        fixed: the quotient for int16, from `fixed_multiplier`; None for bytes.
    """

    zeros: tuple[int, int]
    ratio: float
    to: Rounding
    fixed: tuple[int, int] | None


def attrs(options: Options, statics: Mapping[str, Array]) -> MulAttrs:
    a, b, y = (quantized(options)[n] for n in "aby")
    ratio = a.scale * b.scale / y.scale
    with np.errstate(over="ignore"):
        in_float32 = np.float32(a.scale) * np.float32(b.scale) / np.float32(y.scale)
    check_factors(ratio, in_float32)
    fixed = None if y.dtype.itemsize == 1 else fixed_multiplier(float(in_float32))
    return MulAttrs((a.zero, b.zero), ratio, rounding(options), fixed)


def workspace(attrs: MulAttrs, s: Specs) -> Specs:
    wide = np.dtype(np.int64)
    return {
        "first": TensorSpec(s["a"].shape, wide),
        "second": TensorSpec(s["b"].shape, wide),
        "products": TensorSpec(s["y"].shape, wide),
        "scratch": TensorSpec((s["y"].size,), wide if attrs.fixed else FLOAT32),
    }


def forward(
    attrs: MulAttrs,
    *,
    a: Array,
    b: Array,
    y: Array,
    first: Array,
    second: Array,
    products: Array,
    scratch: Array,
) -> None:
    np.subtract(a, np.int64(attrs.zeros[0]), out=first)
    np.subtract(b, np.int64(attrs.zeros[1]), out=second)
    np.multiply(first, second, out=products)
    if attrs.fixed:
        multiply(products, attrs.fixed, scratch)
        clip_sums(products, attrs.to, y)
    else:
        real = scratch.reshape(y.shape)
        round_sums(products, np.float32(attrs.ratio), attrs.to, real, y)


OP = OpDef(
    "INTEGER_MUL",
    inputs=BINARY,
    infer=broadcast(lambda attrs: attrs.to.dtype),
    forward=Kernel(forward, reads=BINARY, writes=("y",), workspace=workspace),
    grads={},
    stops=BINARY,
    attrs=attrs,
    keeps_activation=True,
    mixes_samples=mixes_samples,
    add_batch_axis=same,
    permute=same,
)
