"""Small quantized networks."""

from pathlib import Path

import numpy as np

from odt.core.formats.reader import read_model
from odt.core.model.model import Model
from support.integer_files import QuantizedBuilder

NAMES = {"RELU": 1, "RELU6": 3}


def small_net(
    path: Path, *, floats: bool = False, dtype: str = "int8", zero: int = 0, groups: int = 1
) -> Model:
    """A convolution with RELU, a pooling, a layer and a SOFTMAX; `floats` adds conversions."""
    net = QuantizedBuilder(seed=5)
    least = int(np.iinfo(dtype).min)
    if floats:
        x = net.operator("QUANTIZE", (net.add_input((1, 6, 6, 2)),), (1, 6, 6, 2), 0.02, 3, dtype)
    else:
        x = net.activation((1, 6, 6, 2), 0.02, 3, dtype)
    scales = [0.004, 0.01, 0.02, 0.003] if not zero else [0.004]
    w = net.weights((4, 3, 3, 2 // groups), scales, dtype=dtype, zero=zero)
    b = net.bias(4, [0.02 * s for s in scales])
    stride: dict[str, int] = {"stride_w": 1, "stride_h": 1}
    y = net.operator(
        "CONV_2D",
        (x, w, b),
        (1, 6, 6, 4),
        0.015,
        least,
        dtype,
        fused_activation_function=NAMES["RELU"],
        **stride,
    )
    y = net.operator(
        "MAX_POOL_2D",
        (y,),
        (1, 3, 3, 4),
        0.015,
        least,
        dtype,
        stride_w=2,
        stride_h=2,
        filter_width=2,
        filter_height=2,
    )
    y = net.operator("RESHAPE", (y,), (1, 36), 0.015, least, dtype, new_shape=[-1, 36])
    w = net.weights((3, 36), [0.002], dtype=dtype, zero=zero)
    y = net.operator("FULLY_CONNECTED", (y, w, net.bias(3, [3e-5])), (1, 3), 0.05, 1, dtype)
    y = net.operator("SOFTMAX", (y,), (1, 3), 1 / 256, least, dtype, beta=1.0)
    if floats:
        y = net.add_operator("DEQUANTIZE", (y,), (1, 3))
    net.write(path, y)
    return read_model(path)
