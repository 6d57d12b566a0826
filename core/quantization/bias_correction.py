"""Corrects biases of layers for the rounding of their weights.

Rounded weights w + e change the mean of unit o by Σ e[o, i] E[x[i]], which is not 0 where x is
never negative, as after RELU6. The bias is reduced by that change, which is approximate where
windows contain padding.

Source: Nagel et al., *Data-Free Quantization Through Weight Equalization and Bias Correction*
(2019), section 4.2, with means of x measured on samples.
"""

import numpy as np

from odt.kernels.rows.opdef import Array


def mean_change(op: str, error: Array, mean: Array) -> Array:
    """Returns by how much rounded weights change the mean of each unit.

    Args:
        op: CONV_2D, DEPTHWISE_CONV_2D or FULLY_CONNECTED; 0 for other layers.
        error: rounded weights minus weights, in the layout of the operator.
        mean: mean of each channel of the input, the last axis.
    """
    if op == "DEPTHWISE_CONV_2D":  # (1, KH, KW, C·M)
        taps = error.sum(axis=(0, 1, 2), dtype=np.float64)
        return np.asarray(taps * np.repeat(mean, taps.size // mean.size))
    if op == "CONV_2D":  # (O, KH, KW, C / groups)
        taps = error.sum(axis=(1, 2), dtype=np.float64)
        groups = mean.reshape(-1, taps.shape[1])
        means = np.repeat(groups, len(taps) // len(groups), axis=0)
        return np.asarray((taps * means).sum(axis=1))
    if op == "FULLY_CONNECTED":  # (O, I), where I may be several axes of the input
        return np.asarray(error @ np.tile(mean, error.shape[1] // mean.size))
    return np.zeros(1)
