"""Attrs of operators whose samples lie in an axis of their own, before all others.

Where a file's shapes hold for one sample, that is how several are computed at once (core/stack.py).
"""

from dataclasses import replace

from odt.kernels.opdef import Attrs


def same(attrs: Attrs, samples: int) -> Attrs:
    """Of an operator that counts axes from the last one on."""
    return attrs


def behind(axis: int) -> int:
    """Where an axis is, once there is one before it."""
    return axis + 1 if axis >= 0 else axis


def later_axis(attrs: Attrs, samples: int) -> Attrs:
    """Of an operator along attrs.axis."""
    return replace(attrs, axis=behind(attrs.axis))
