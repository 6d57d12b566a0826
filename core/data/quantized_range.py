"""Compares real numbers with the range of a quantized input."""

from typing import Any

import numpy as np

from odt.core.data.scale import rescale
from odt.kernels.geometry.quantize import Quantization, dequantize, limits
from odt.kernels.rows.opdef import TensorSpec

STEPS = 255  # of a range; values less than a step outside count as inside
RANGE_SAMPLES = 32  # that are compared with the range
MAX_OUTSIDE = 0.05  # fraction of values outside the range, above which a note warns
LEAST_USED = 0.05  # fraction of the range that values take up, below which a note warns


def range_notes(
    name: str, rows: Any, spec: TensorSpec, scale: str, quantization: Quantization
) -> tuple[str, ...]:
    """Returns a warning if the integers of an input represent the first samples badly.

    Args:
        name: file and tensor, for the warning.
        rows: real numbers; the first axis is the samples.
        spec: shape and dtype of one sample of the input.
        scale: scale of integers that are read as floats; see sidecar.py.
        quantization: quantization of the input.
    """
    real = np.array(rows[:RANGE_SAMPLES], np.float32)
    if scale:
        rescale(real, scale)
    least, most = dequantize(np.array(limits(spec.dtype)), quantization)
    step = (most - least) / STEPS
    finite = real[np.isfinite(real)]
    if not finite.size:
        return ()
    outside = float(np.mean((finite < least - step) | (finite > most + step)))
    used = float(finite.max() - finite.min()) / (most - least)
    if outside <= MAX_OUTSIDE and not 0 < used < LEAST_USED:
        return ()
    fault = f"values use {used:.1%} of"
    if outside > MAX_OUTSIDE:
        fault = f"{outside:.0%} of the values are outside"
    return (
        f"{name}: {fault} the range of the quantized input, {least:g} to {most:g}. "
        "Scale the data as the model's were.",
    )
