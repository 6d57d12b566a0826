"""RANGE: start, start + delta, … up to but not including limit; no gradient.

All three inputs are scalars and static. Source: tf.range.
"""

from collections.abc import Mapping
from math import ceil, isfinite

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.rows.opdef import Array, Kernel, OpDef, Options, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class RangeAttrs:
    start: float
    delta: float
    count: int
    dtype: np.dtype[np.generic]


def attrs(options: Options, statics: Mapping[str, Array]) -> RangeAttrs:
    inputs = [statics[n] for n in ("start", "limit", "delta")]
    dtypes = {a.dtype for a in inputs}
    are_numbers = all(a.size == 1 and a.dtype.kind != "b" for a in inputs)
    if not are_numbers or len(dtypes) > 1 or not inputs[2]:
        shown = ", ".join(f"{np.ravel(a)[:4].tolist()} {a.dtype}" for a in inputs)
        raise ShapeError(
            "start, limit and delta must be single numbers of one type, delta not 0, "
            f"but got {shown}"
        )
    start, limit, delta = (a.flat[0].item() for a in inputs)
    steps = (limit - start) / delta
    if not isfinite(steps):
        raise ShapeError(f"the values must be countable, but got {start}, {limit}, {delta}")
    return RangeAttrs(start, delta, max(ceil(steps), 0), inputs[0].dtype)


def infer(attrs: RangeAttrs, s: Specs) -> Specs:
    return {"y": TensorSpec((attrs.count,), attrs.dtype)}


def prepare(attrs: RangeAttrs, s: Specs) -> Mapping[str, Array]:
    """Prepares the values. Floats are computed in float64; integers wrap around in their type."""
    wide = np.dtype(np.float64) if attrs.dtype.kind == "f" else attrs.dtype
    start, delta = (np.array(value, wide) for value in (attrs.start, attrs.delta))
    values = np.arange(attrs.count, dtype=wide) * delta + start
    return {"values": values.astype(attrs.dtype, copy=False)}


def forward(attrs: RangeAttrs, *, y: Array, values: Array) -> None:
    np.copyto(y, values)


OP = OpDef(
    "RANGE",
    inputs=("start", "limit", "delta"),
    infer=infer,
    forward=Kernel(forward, reads=(), writes=("y",), prepare=prepare),
    grads={},
    static=("start", "limit", "delta"),
    attrs=attrs,
)
