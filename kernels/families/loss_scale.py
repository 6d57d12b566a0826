"""Scales of losses: one scale for all samples, or one per sample if samples have weights.

A loss is the sum of its terms times the scale. Axis 0 of terms and gradients is the samples.
"""

import numpy as np

from odt.kernels.rows.opdef import Array


def scaled_sum(terms: Array, scale: Array, divisor: float) -> float:
    """Computes Σ scale · terms / divisor.

    Args:
        terms: terms of the loss; a scale for each sample overwrites them.
        scale: (1,), or (R,) for R runs of equally many terms.
        divisor: divisor of the sum, such as the number of terms of a sample.
    """
    if scale.size == 1:
        return np.sum(terms) * (scale[0] / divisor)  # type: ignore[no-any-return]
    _weigh(terms, scale)
    return np.sum(terms) / divisor  # type: ignore[no-any-return]


def scale_gradient(dx: Array, scale: Array, divisor: float, factor: float = 1.0) -> None:
    """Computes dx ← factor · scale · dx / divisor; arguments as for `scaled_sum`."""
    if scale.size == 1:
        np.multiply(dx, scale[0] / divisor * factor, out=dx)
        return
    _weigh(dx, scale)
    np.multiply(dx, factor / divisor, out=dx)


def _weigh(a: Array, scale: Array) -> None:
    runs = a.reshape(scale.size, -1, copy=False)
    np.multiply(runs, scale[:, np.newaxis], out=runs)
