"""INTEGER_QUANTIZE: integers of real numbers, or of the integers of another quantization.

x, y any shape

Real x: y = clip(rint(x / s_y) + z_y). Integers: y = clip(rint((x − z_x) s_x / s_y) + z_y). Between
integers of one type of 8 bits, XNNPACK rounds the factor to m / 256, and half steps up:
y = clip(⌊((x − z_x) m + 128) / 256⌋ + z_y) with m = rint(256 s_x / s_y).
Source: TFLite's 8-bit quantization specification; kernels/geometry/quantize.py; XNNPACK's vcvt.
"""

from collections.abc import Mapping

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.families.requantize import Rounding, check_factors, quantized, round_sums, rounding
from odt.kernels.geometry.axes import same
from odt.kernels.geometry.quantize import round_to_steps
from odt.kernels.native import integer
from odt.kernels.rows.opdef import Array, Compiled, Kernel, OpDef, Options, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class QuantizeAttrs:
    """Scale and zero point of x (1 and 0 for real numbers), scale and rounding of y, and m or 0."""

    scale_x: float
    zero_x: int
    scale: float
    to: Rounding
    multiplier: int = 0


def attrs(options: Options, statics: Mapping[str, Array]) -> QuantizeAttrs:
    tensors = quantized(options)
    x, y = tensors.get("x"), tensors["y"]
    scale, zero = (x.scale, x.zero) if x else (1.0, 0)
    check_factors(scale / y.scale)
    factor = np.float32(scale / y.scale)
    of_bytes = x is not None and x.dtype == y.dtype and y.dtype.itemsize == 1
    multiplier = 0
    if of_bytes and 1 / 256 <= factor <= 128:
        multiplier = int(np.rint(256 * factor))
    return QuantizeAttrs(scale, zero, y.scale, rounding(options), multiplier)


def infer(attrs: QuantizeAttrs, s: Specs) -> Specs:
    return {"y": TensorSpec(s["x"].shape, attrs.to.dtype)}


def workspace(attrs: QuantizeAttrs, s: Specs) -> Specs:
    x = s["x"]
    specs = {"real": TensorSpec(x.shape, np.dtype(np.float32))}
    if x.dtype.kind != "f":
        specs["steps"] = TensorSpec(x.shape, np.dtype(np.int32))
    return specs


def forward(
    attrs: QuantizeAttrs, *, x: Array, y: Array, real: Array, steps: Array | None = None
) -> None:
    to = attrs.to
    if steps is None:
        scale, zero = np.float32(attrs.scale).reshape(1), np.int64(to.zero).reshape(1)
        round_to_steps(x, scale, zero, (to.lo, to.hi), real)
        np.copyto(y, real, casting="unsafe")
        return
    np.subtract(x, np.int32(attrs.zero_x), out=steps)
    if attrs.multiplier:
        np.multiply(steps, np.int32(attrs.multiplier), out=steps)
        np.add(steps, np.int32(to.zero * 256 + 128), out=steps)
        np.right_shift(steps, 8, out=steps)
        np.clip(steps, to.lo, to.hi, out=steps)
        np.copyto(y, steps, casting="unsafe")
        return
    round_sums(steps, np.float32(attrs.scale_x / attrs.scale), to, real, y)


OP = OpDef(
    "INTEGER_QUANTIZE",
    inputs=("x",),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x",),
        writes=("y",),
        workspace=workspace,
        compiled=Compiled(integer.quantize, integer.quantize_fits),
    ),
    grads={},
    stops=("x",),
    attrs=attrs,
    add_batch_axis=same,
    permute=same,
)
