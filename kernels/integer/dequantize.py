"""INTEGER_DEQUANTIZE: real numbers of a quantized tensor, y = s_x (x − z_x) in float32.

x, y any shape

Source: TFLite's 8-bit quantization specification; kernels/geometry/quantize.py.
"""

from collections.abc import Mapping

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.families.requantize import quantized
from odt.kernels.geometry.axes import same
from odt.kernels.geometry.quantize import steps_to_real
from odt.kernels.native import integer
from odt.kernels.rows.opdef import Array, Compiled, Kernel, OpDef, Options, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class DequantizeAttrs:
    """Scale and zero point of x."""

    scale: float
    zero: int


def attrs(options: Options, statics: Mapping[str, Array]) -> DequantizeAttrs:
    x = quantized(options)["x"]
    return DequantizeAttrs(x.scale, x.zero)


def infer(attrs: DequantizeAttrs, s: Specs) -> Specs:
    return {"y": TensorSpec(s["x"].shape, np.dtype(np.float32))}


def forward(attrs: DequantizeAttrs, *, x: Array, y: Array) -> None:
    steps_to_real(x, np.float32(attrs.scale).reshape(1), np.int64(attrs.zero).reshape(1), y)


OP = OpDef(
    "INTEGER_DEQUANTIZE",
    inputs=("x",),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x",),
        writes=("y",),
        compiled=Compiled(integer.dequantize, integer.dequantize_fits),
    ),
    grads={},
    stops=("x",),
    attrs=attrs,
    add_batch_axis=same,
    permute=same,
)
