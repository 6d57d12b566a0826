"""What becomes of attrs that name axes, when the axes of an operator's inputs change.

Either the samples get an axis of their own before all others (core/lowering/batch_samples.py), or
the axes change places (core/lowering/push_transposes.py): axis k becomes axis perm[k].
"""

from dataclasses import replace

from odt.kernels.opdef import Attrs


def same(attrs: Attrs, change: object) -> Attrs:
    """Of an operator that counts axes from the last one on, or names none."""
    return attrs


def behind(axis: int) -> int:
    """Where an axis is, once there is one before it."""
    return axis + 1 if axis >= 0 else axis


def later_axis(attrs: Attrs, samples: int) -> Attrs:
    """Of an operator along attrs.axis."""
    return replace(attrs, axis=behind(attrs.axis))


def moved_axis(attrs: Attrs, perm: tuple[int, ...]) -> Attrs:
    """Of an operator along attrs.axis."""
    return replace(attrs, axis=perm[attrs.axis])
