"""INTEGER_QUANTIZE: integers of real numbers, or of the integers of another quantization.

x, y any shape

Real x: y = clip(rint(x / s_y) + z_y). Integers: y = clip(rint((x − z_x) s_x / s_y) + z_y).
Source: TFLite's 8-bit quantization specification; kernels/geometry/quantize.py.
"""

from collections.abc import Mapping

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.families.requantize import (
    Rounding,
    Tensors,
    check_factors,
    quantized,
    round_sums,
    rounding,
)
from odt.kernels.geometry.axes import same
from odt.kernels.geometry.quantize import round_to_steps
from odt.kernels.native import integer
from odt.kernels.opdef import Array, Compiled, Kernel, OpDef, Options, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class QuantizeAttrs:
    """Scale and zero point of x (1 and 0 for real numbers), scale of y, rounding of y."""

    scale_x: float
    zero_x: int
    scale: float
    to: Rounding


def attrs(options: Options, statics: Mapping[str, Array]) -> QuantizeAttrs:
    tensors = quantized(options)
    x, y = tensors.get("x"), tensors["y"]
    scale, zero = (x.scale, x.zero) if x else (1.0, 0)
    check_factors(np.float32(scale / y.scale))
    return QuantizeAttrs(scale, zero, y.scale, rounding(options))


def constants(tensors: Tensors) -> Mapping[str, Array]:
    return {}


def infer(attrs: QuantizeAttrs, s: Specs) -> Specs:
    return {"y": TensorSpec(s["x"].shape, attrs.to.dtype)}


def workspace(attrs: QuantizeAttrs, s: Specs) -> Specs:
    x = s["x"]
    made = {"real": TensorSpec(x.shape, np.dtype(np.float32))}
    return made if x.dtype.kind == "f" else {**made, "steps": TensorSpec(x.shape, np.dtype("i4"))}


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
