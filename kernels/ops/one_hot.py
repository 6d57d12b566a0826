"""ONE_HOT: along a new axis, y = `on` where the index points and `off` elsewhere; no gradient.

indices (P…, Q…)    y (P…, depth, Q…), the new axis at `axis`, −1 for the last
For an index outside 0 … depth − 1, all values are off. Source: OneHotOptions in the TFLite
schema, tf.one_hot.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.elementwise import BOOL
from odt.kernels.geometry.axes import new_axis
from odt.kernels.geometry.statics import number
from odt.kernels.native import typed
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Options, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class OneHotAttrs:
    axis: int
    depth: int


def attrs(options: Options, statics: Mapping[str, Array]) -> OneHotAttrs:
    return OneHotAttrs(int(options.get("axis", -1)), number("depth", statics))


def infer(attrs: OneHotAttrs, s: Specs) -> Specs:
    indices, on, off = s["indices"], s["on"], s["off"]
    if indices.dtype.kind != "i" or on.dtype != off.dtype or on.size != 1 or off.size != 1:
        raise ShapeError(
            "indices must be integers, and on and off single values of one dtype, "
            f"but got indices {indices}, on {on}, off {off}"
        )
    if attrs.depth < 0:
        raise ShapeError(f"depth must be 0 or more, but got {attrs.depth}")
    at = new_axis(attrs.axis, len(indices.shape))
    shape = (*indices.shape[:at], attrs.depth, *indices.shape[at:])
    return {"y": TensorSpec(shape, on.dtype)}


def mixes_samples(attrs: OneHotAttrs, s: Specs, batched: Names) -> bool:
    return new_axis(attrs.axis, len(s["indices"].shape)) == 0 or bool(batched - {"indices"})


def hits(attrs: OneHotAttrs, s: Specs) -> Specs:
    return {"hit": TensorSpec(s["y"].shape, BOOL)}


def prepare(attrs: OneHotAttrs, s: Specs) -> Mapping[str, Any]:
    """Prepares the positions along the new axis, shaped to broadcast with y."""
    rank = len(s["indices"].shape)
    dtype = np.promote_types(s["indices"].dtype, np.min_scalar_type(attrs.depth))
    after = (1,) * (rank - new_axis(attrs.axis, rank))
    return {"order": np.arange(attrs.depth, dtype=dtype).reshape(-1, *after)}


def forward(
    attrs: OneHotAttrs,
    *,
    indices: Array,
    on: Array,
    off: Array,
    y: Array,
    hit: Array,
    order: Array,
) -> None:
    y.fill(off.flat[0])
    np.equal(np.expand_dims(indices, new_axis(attrs.axis, indices.ndim)), order, out=hit)
    np.copyto(y, on.flat[0], where=hit)


OP = OpDef(
    "ONE_HOT",
    inputs=("indices", "depth", "on", "off"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("indices", "on", "off"),
        writes=("y",),
        workspace=hits,
        prepare=prepare,
        compiled=typed.one_hot(lambda attrs, rank: new_axis(attrs.axis, rank)),
    ),
    grads={},
    stops=("indices", "on", "off"),
    static=("depth",),
    attrs=attrs,
    mixes_samples=mixes_samples,
)
