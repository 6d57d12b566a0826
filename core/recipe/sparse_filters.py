"""Sparse training: filters with only some output channels that train."""

import math
from collections.abc import Sequence

import numpy as np

from odt.core.lowering.binding import bind_inputs, row_of
from odt.core.model.graph import LoweredGraph
from odt.errors import OptionError
from odt.kernels.rows.opdef import Array

# Operator → input whose leading axis is the last axis of the output.
FILTERS = {"CONV_2D": "w", "FULLY_CONNECTED": "w"}
DIGITS = 9  # after the point, of a number of channels before it is rounded up


def filters(lowered: LoweredGraph) -> set[int]:
    """Returns the constants that all readers use as a filter."""
    constants: set[int] = set()
    other: set[int] = set()
    for node in lowered.nodes:
        row = row_of(node.op)
        for name, i in bind_inputs(row, node).items():
            is_filter = FILTERS.get(node.op) == name and lowered.tensors[i].data is not None
            (constants if is_filter else other).add(i)
    return constants - other


def strongest(w: Array, fraction: float) -> tuple[int, ...]:
    """Returns the output channels with the largest norm, at least one; the first of equal norms.

    Args:
        w: filter (O, …).
        fraction: fraction of the O channels, rounded up.
    """
    norms = np.linalg.norm(w.reshape(len(w), -1).astype(np.float64), axis=1)
    # 0.07 · 100 is 7.000000000000001 in floating point, which is no eighth channel.
    count = max(math.ceil(round(fraction * len(w), DIGITS)), 1)
    return tuple(sorted(np.argsort(-norms, kind="stable")[:count].tolist()))


def check_channels(lowered: LoweredGraph, sparse: Sequence[tuple[int, tuple[int, ...]]]) -> None:
    """Checks sparse channels, which may come from another model's checkpoint.

    Raises:
        OptionError: if a tensor is not a filter, or does not have these channels.
    """
    filter_weights = filters(lowered)
    for i, channels in sparse:
        if i not in filter_weights:
            rule = "channels must be of a tensor that all operators read as a filter"
            raise OptionError("sparse", rule, f"those of tensor {i}")
        size = lowered.tensors[i].spec.shape[0]
        if not channels or list(channels) != sorted(set(channels)) or channels[-1] >= size:
            raise OptionError(
                "sparse",
                f"channels must be ascending and below the filter's {size}",
                f"{list(channels)} of tensor {i}",
            )
