"""Rows of y = a + b and y = a − b for quantized tensors, which broadcast as in NumPy.

y = clip(⌊((a − z_a) m_a ± (b − z_b) m_b) / 2ᵏ + ½⌋ + z_y) with integer factors m = rint(2ᵏ s / s_y)
of at most 21 bits and quotients in float32. All arithmetic is exact in integers. This is XNNPACK's
form; int16 has that of TFLite's kernels, in kernels/families/short_sum.py.
"""

from collections.abc import Callable, Mapping
from math import frexp

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.families.binary import BINARY, broadcast_shape, mixes_samples
from odt.kernels.families.requantize import (
    Rounding,
    check_factors,
    clip_sums,
    quantized,
    rounding,
)
from odt.kernels.families.short_sum import ShortSum, add_short, short_sum
from odt.kernels.geometry.axes import same
from odt.kernels.native import integer
from odt.kernels.rows.opdef import Array, Attrs, Compiled, Kernel, OpDef, Options, Specs, TensorSpec

BITS = 21  # of the larger factor
LARGEST_SHIFT = 62
LARGEST_FACTOR = 2**45  # more makes no difference to the integers of y


@dataclass(frozen=True, slots=True)
class SumAttrs:
    """Zero points and factors of a and b, the shift k, and the rounding of y.

    Attributes:
        short: how int16 is added; None for bytes.
    """

    zeros: tuple[int, int]
    factors: tuple[int, int]
    shift: int
    to: Rounding
    short: ShortSum | None


def sum_attrs(sign: int) -> Callable[[Options, Mapping[str, Array]], SumAttrs]:
    """Makes `attrs` of a + sign · b."""

    def attrs(options: Options, statics: Mapping[str, Array]) -> SumAttrs:
        tensors, to = quantized(options), rounding(options)
        a, b, y = (tensors[n] for n in "aby")
        check_factors(a.scale / y.scale, b.scale / y.scale)
        ratios = [float(np.float32(x.scale) / np.float32(y.scale)) for x in (a, b)]
        shift = min(max(BITS - frexp(max(ratios))[1], 1), LARGEST_SHIFT)
        first, second = (min(round(ratio * 2.0**shift), LARGEST_FACTOR) for ratio in ratios)
        short = short_sum(tensors, options, sign, to) if y.dtype.itemsize > 1 else None
        return SumAttrs((a.zero, b.zero), (first, sign * second), shift, to, short)

    return attrs


def broadcast(dtype: Callable[[Attrs], np.dtype[np.generic]]) -> Callable[[Attrs, Specs], Specs]:
    """Makes `infer` of an operator whose inputs a and b broadcast."""

    def infer(attrs: Attrs, s: Specs) -> Specs:
        return {"y": TensorSpec(broadcast_shape(s), dtype(attrs))}

    return infer


def workspace(attrs: SumAttrs, s: Specs) -> Specs:
    wide = np.dtype(np.int64)
    return {
        "first": TensorSpec(s["a"].shape, wide),
        "second": TensorSpec(s["b"].shape, wide),
        "sums": TensorSpec(s["y"].shape, wide),
        "scratch": TensorSpec((s["y"].size if attrs.short else 0,), wide),
    }


def forward(
    attrs: SumAttrs,
    *,
    a: Array,
    b: Array,
    y: Array,
    first: Array,
    second: Array,
    sums: Array,
    scratch: Array,
) -> None:
    if attrs.short:
        arrays = {"a": a, "b": b, "y": y, "first": first, "second": second, "sums": sums}
        add_short(attrs.short, **arrays, scratch=scratch)
        return
    for x, zero, factor, term in zip(
        (a, b), attrs.zeros, attrs.factors, (first, second), strict=True
    ):
        np.subtract(x, np.int64(zero), out=term)
        np.multiply(term, factor, out=term)
    np.add(first, second, out=sums)
    np.add(sums, 1 << (attrs.shift - 1), out=sums)
    np.right_shift(sums, attrs.shift, out=sums)
    clip_sums(sums, attrs.to, y)


def sum_row(name: str, sign: int) -> OpDef:
    """Makes the row of a + sign · b."""
    return OpDef(
        name,
        inputs=BINARY,
        infer=broadcast(lambda attrs: attrs.to.dtype),
        forward=Kernel(
            forward,
            reads=BINARY,
            writes=("y",),
            workspace=workspace,
            compiled=Compiled(integer.sums, integer.sum_fits),
        ),
        grads={},
        stops=BINARY,
        attrs=sum_attrs(sign),
        keeps_activation=True,
        mixes_samples=mixes_samples,
        add_batch_axis=same,
        permute=same,
    )
