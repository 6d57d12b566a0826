"""Convolution of groups of channels, one group after the other.

Filters (O, KH, KW, C) on G·C channels read C of them: the first O / G filters the first C channels,
and so on. Source: grouped convolution in TFLite's CONV_2D.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from odt.kernels.geometry.conv_geometry import IMAGES, UNITS, groups_of, part_of
from odt.kernels.rows.opdef import Attrs, Specs, TensorSpec

GROUP = "group_"  # prefix of the names of workspace for the images of a group


def of_group(s: Specs, groups: int | None = None) -> Specs:
    """Returns the specs of the operands for one group.

    Args:
        groups: number of groups, for weights whose shape does not tell.
    """
    groups = groups or groups_of(s)
    return s if groups == 1 else {name: _of_group(name, spec, groups) for name, spec in s.items()}


def _of_group(name: str, spec: TensorSpec, groups: int) -> TensorSpec:
    if name in IMAGES:
        return TensorSpec((*spec.shape[:-1], spec.shape[-1] // groups), spec.dtype)
    if name in UNITS:
        return TensorSpec((spec.shape[0] // groups, *spec.shape[1:]), spec.dtype)
    return spec


def copies(s: Specs, *names: str, groups: int | None = None) -> Specs:
    """Returns the workspace for images of a group, if there are several."""
    groups = groups or groups_of(s)
    return {GROUP + n: of_group(s, groups)[n] for n in names} if groups > 1 else {}


def by_groups(run: Callable[..., None], written: str) -> Callable[..., None]:
    """Makes a kernel that computes one group after the other.

    Args:
        run: the kernel without groups.
        written: the operand that it writes.
    """

    def run_groups(attrs: Attrs, *, groups: int, **arguments: Any) -> None:
        if groups == 1:
            run(attrs, **arguments)
            return
        images = {n: arguments.pop(GROUP + n) for n in IMAGES if GROUP + n in arguments}
        operands = {n: a for n, a in arguments.items() if n in images or n in UNITS}
        for k in range(groups):
            parts = {n: part_of(n, a, k, groups) for n, a in operands.items() if a is not None}
            for name, a in images.items():
                if name != written:
                    np.copyto(a, parts[name])
            run(attrs, **{**arguments, **parts, **images})
            if written in images:
                np.copyto(parts[written], images[written])

    return run_groups
