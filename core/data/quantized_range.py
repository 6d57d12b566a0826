"""Compares real numbers with the range of a quantized input."""

from typing import Any

import numpy as np

from odt.core.data.sidecar import rescale
from odt.kernels.geometry.quantize import Quantization, dequantize, limits
from odt.kernels.rows.opdef import TensorSpec

# Samples by which the range of real numbers is compared with that of a quantized input, fraction of
# values outside, and fraction of the range that is used, beyond which a note warns.
RANGE_SAMPLES, MAX_OUTSIDE, LEAST_USED = 32, 0.05, 0.05


def range_notes(
    name: str, rows: Any, spec: TensorSpec, scale: str, quantization: Quantization
) -> tuple[str, ...]:
    """Warns of real numbers that the integers of an input hold badly, by the first samples."""
    real = np.array(rows[:RANGE_SAMPLES], np.float32)
    if scale:
        rescale(real, scale)
    least, most = dequantize(np.array(limits(spec.dtype)), quantization)
    step, finite = (most - least) / 255, real[np.isfinite(real)]
    if not finite.size:
        return ()
    outside = float(np.mean((finite < least - step) | (finite > most + step)))
    used = float(finite.max() - finite.min()) / (most - least)
    if outside <= MAX_OUTSIDE and not 0 < used < LEAST_USED:
        return ()
    what = f"{outside:.0%} of the values are outside" if outside > MAX_OUTSIDE else "values use"
    rest = "" if outside > MAX_OUTSIDE else f"{used:.1%} of "
    return (
        f"{name}: {what} {rest}the range of the quantized input, {least:g} to {most:g}. "
        "Scale the data as the model's were.",
    )
