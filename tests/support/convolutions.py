"""Convolutions of small networks."""

import numpy as np

from odt.core.export.model_builder import ModelBuilder


def add_convolution(
    b: ModelBuilder,
    x: int,
    side: int,
    inputs: int,
    outputs: int,
    size: int,
    stride: int,
    activation: int = 0,
) -> int:
    """Adds a convolution with random weights and no bias, and returns its output.

    Args:
        b: the model.
        x: input tensor.
        side: height and width of the output.
        inputs, outputs: channels.
        size: height and width of the filters.
        stride: steps of the windows.
        activation: fused activation, by its number in the schema.
    """
    w = b.add_weight((outputs, size, size, inputs), size * size * inputs)
    bias = b.add_constant(np.zeros(outputs, np.float32))
    return b.add_operator(
        "CONV_2D",
        (x, w, bias),
        (1, side, side, outputs),
        stride_h=stride,
        stride_w=stride,
        fused_activation_function=activation,
    )
