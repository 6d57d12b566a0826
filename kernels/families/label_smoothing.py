"""Label smoothing: a fraction ε of each target is distributed evenly over the classes.

t ← t (1 − ε) + ε / K

Source: Szegedy et al. (2016), Rethinking the Inception Architecture; K as in Keras: the number of
classes, and 2 for an independent binary output.
"""

import numpy as np

from odt.kernels.rows.opdef import Array, Attrs, Specs
from odt.kernels.rows.updatedef import HyperParameter

LABEL_SMOOTHING = HyperParameter(
    "label_smoothing",
    "Label smoothing: fraction of each target spread evenly over the classes",
    most=1,
)


def smoothing_workspace(attrs: Attrs, s: Specs) -> Specs:
    """Returns the workspace for smoothed targets; empty without label smoothing."""
    return {"smooth": s["t"]} if attrs.label_smoothing else {}


def smoothed(t: Array, part: float, classes: int, smooth: Array | None) -> Array:
    """Computes the smoothed targets in `smooth`; returns t itself if `smooth` is None."""
    if smooth is None:
        return t
    np.multiply(t, 1 - part, out=smooth)
    np.add(smooth, part / classes, out=smooth)
    return smooth
