"""RANGE: start, start + delta, … as long as they are before limit; y has no gradient.

All three are single numbers and static. Source: tf.range.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np

from odt.errors import ShapeError
from odt.kernels.opdef import Array, Kernel, OpDef, Options, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class RangeAttrs:
    start: float
    limit: float
    delta: float
    dtype: np.dtype[np.generic]


def attrs(options: Options, statics: Mapping[str, Array]) -> RangeAttrs:
    three = [statics[n] for n in ("start", "limit", "delta")]
    if any(a.size != 1 for a in three) or not three[2].flat[0]:
        shown = ", ".join(str(np.ravel(a).tolist()) for a in three)
        raise ShapeError(
            f"start, limit and delta must be single numbers, delta not 0, but got {shown}"
        )
    start, limit, delta = (a.flat[0].item() for a in three)
    return RangeAttrs(start, limit, delta, three[0].dtype)


def infer(attrs: RangeAttrs, s: Specs) -> Specs:
    count = max(ceil((attrs.limit - attrs.start) / attrs.delta), 0)
    return {"y": TensorSpec((count,), attrs.dtype)}


def forward(attrs: RangeAttrs, *, y: Array) -> None:
    for k in range(y.size):
        y[k] = attrs.start + k * attrs.delta


OP = OpDef(
    "RANGE",
    inputs=("start", "limit", "delta"),
    infer=infer,
    forward=Kernel(forward, reads=(), writes=("y",)),
    grads={},
    static=("start", "limit", "delta"),
    attrs=attrs,
)
