"""REVERSE_V2: reverses x along some axes; dx is dy reversed.

Source: tf.reverse.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.block_moves import block_move
from odt.kernels.geometry.axes import behind
from odt.kernels.rows.opdef import Array, Names, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef

Axes = tuple[int, ...]


def attrs(options: Options, statics: Mapping[str, Array]) -> Axes:
    return tuple(int(a) for a in np.ravel(statics["axes"]))


def resolved(axes: Axes, rank: int) -> set[int]:
    """Returns the axes counted from 0; raises ShapeError if they are not different axes of x."""
    positive = [a + rank if a < 0 else a for a in axes]
    if len(set(positive)) != len(positive) or not all(0 <= a < rank for a in positive):
        raise ShapeError(f"axes must be different ones of x, but got {axes}, x of rank {rank}")
    return set(positive)


def infer(axes: Axes, s: Specs) -> Specs:
    resolved(axes, len(s["x"].shape))
    return {"y": TensorSpec(s["x"].shape, s["x"].dtype)}


def mixes_samples(axes: Axes, s: Specs, batched: Names) -> bool:
    return 0 in resolved(axes, len(s["x"].shape))


def parts(axes: Axes, x: Array, y: Array) -> Iterator[tuple[Array, Array]]:
    reverse = resolved(axes, x.ndim)
    at: list[Any] = [slice(None, None, -1 if k in reverse else 1) for k in range(x.ndim)]
    yield x[(*at, ...)], y  # with an ellipsis also a number is an array


def add_batch_axis(axes: Axes, samples: int) -> Axes:
    return tuple(map(behind, axes))


OP = block_move(
    "REVERSE_V2",
    parts,
    infer,
    attrs,
    inputs=("x", "axes"),
    mixes_samples=mixes_samples,
    add_batch_axis=add_batch_axis,
    quantized=QuantizedDef(versions={"INT8": 3}, values="moved"),
)
