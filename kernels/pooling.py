"""What pooling operators share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from odt.errors import ShapeError
from odt.kernels.columns import Source
from odt.kernels.opdef import Array, Options, Specs, TensorSpec
from odt.kernels.window import SAME, Axis, axis


@dataclass(frozen=True, slots=True)
class PoolAttrs:
    """Padding as in the schema; stride and window as (height, width)."""

    padding: int
    stride: tuple[int, int]
    window: tuple[int, int]

    def axes(self, x: TensorSpec) -> tuple[Axis, Axis]:
        h, v = (
            axis(x.shape[i], self.window[i - 1], self.stride[i - 1], 1, self.padding)
            for i in (1, 2)
        )
        return h, v


def pool_attrs(options: Options, statics: Mapping[str, Array]) -> PoolAttrs:
    return PoolAttrs(
        options.get("padding", SAME),
        (options.get("stride_h", 1), options.get("stride_w", 1)),
        (options.get("filter_height", 1), options.get("filter_width", 1)),
    )


def infer(attrs: PoolAttrs, s: Specs) -> Specs:
    x = s["x"]
    if len(x.shape) != 4 or x.dtype.kind != "f":
        raise ShapeError(f"x must be (N, H, W, C) of a float type, but got {x}")
    h, v = attrs.axes(x)
    return {"y": TensorSpec((x.shape[0], h.out, v.out, x.shape[3]), x.dtype)}


def source_of(attrs: PoolAttrs, x: TensorSpec) -> Source:
    h, v = attrs.axes(x)
    return Source(x.shape[0], (h.lo, h.hi), (v.lo, v.hi), *x.shape[1:])


def geometry(attrs: PoolAttrs, s: Specs) -> Mapping[str, Any]:
    x = s["x"]
    return {"axes": attrs.axes(x), "source": source_of(attrs, x)}


def shares(attrs: PoolAttrs, x: TensorSpec) -> Array:
    """(OH, OW, 1): one over the number of inputs in each window, padding not counted."""

    def counts(a: Axis) -> Array:
        first = np.arange(a.out) * a.stride - a.lo
        return np.minimum(first + a.kernel, a.size) - np.maximum(first, 0)

    h, v = attrs.axes(x)
    return (1 / np.multiply.outer(counts(h), counts(v)))[:, :, np.newaxis].astype(x.dtype)
