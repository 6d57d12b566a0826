"""Attributes that name axes, adapted when the axes of an operator's inputs change.

Either a batch axis is added before all others (core/lowering/batch_samples.py), or the axes are
permuted (core/lowering/push_transposes.py): axis k of the inputs becomes axis perm[k].
"""

from dataclasses import replace

from odt.kernels.opdef import Attrs


def same(attrs: Attrs, change: object) -> Attrs:
    """Attributes that name no axis, or count axes from the last one: unchanged."""
    return attrs


def behind(axis: int) -> int:
    """The number of an axis after an axis was added before it."""
    return axis + 1 if axis >= 0 else axis


def later_axis(attrs: Attrs, samples: int) -> Attrs:
    """Of an operator along attrs.axis."""
    return replace(attrs, axis=behind(attrs.axis))


def moved_axis(attrs: Attrs, perm: tuple[int, ...]) -> Attrs:
    """Of an operator along attrs.axis."""
    return replace(attrs, axis=perm[attrs.axis])
