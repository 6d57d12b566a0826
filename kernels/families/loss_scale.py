"""Scales of losses: one for all terms, or one for each run of terms.

A loss is the sum of its terms, each times its scale. The terms of a run follow each other; a run is
a sample, a position or a single value, whichever has weights of its own.
"""

import numpy as np

from odt.kernels.rows.opdef import Array


def scaled_sum(terms: Array, scale: Array, divisor: float) -> float:
    """Computes Σ scale · terms / divisor.

    Args:
        terms: terms of the loss, which are overwritten if there are several scales.
        scale: (1,), or (R,) for R runs of equally many terms.
        divisor: divisor of the sum, such as the number of terms of a sample.
    """
    if scale.size == 1:
        return np.sum(terms) * (scale[0] / divisor)  # type: ignore[no-any-return]
    _weigh(terms, scale)
    return np.sum(terms) / divisor  # type: ignore[no-any-return]


def scale_gradient(dx: Array, scale: Array, divisor: float, factor: float = 1.0) -> None:
    """Computes dx ← factor · scale · dx / divisor.

    Args:
        dx: gradients of the terms.
        scale, divisor: as for `scaled_sum`.
        factor: a further factor.
    """
    if scale.size == 1:
        np.multiply(dx, scale[0] / divisor * factor, out=dx)
        return
    _weigh(dx, scale)
    np.multiply(dx, factor / divisor, out=dx)


def _weigh(a: Array, scale: Array) -> None:
    runs = a.reshape(scale.size, -1, copy=False)
    np.multiply(runs, scale[:, np.newaxis], out=runs)
