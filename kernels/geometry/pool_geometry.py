"""Attributes of pooling operators, and their windows."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.geometry.im2col import PaddedImages
from odt.kernels.geometry.window import SAME, Axis, axis, trimmed
from odt.kernels.rows.opdef import Array, Options, Specs, TensorSpec

NO_TAP = 255  # digest of a window in which no input is the maximum


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
        # Operators that store positions of taps have windows of fewer than NO_TAP: trimming those
        # would change the positions.
        if self.window[0] * self.window[1] < NO_TAP:
            return h, v
        return trimmed(h), trimmed(v)


def pool_attrs(options: Options, statics: Mapping[str, Array]) -> PoolAttrs:
    return PoolAttrs(
        options.get("padding", SAME),
        (options.get("stride_h", 1), options.get("stride_w", 1)),
        (options.get("filter_height", 1), options.get("filter_width", 1)),
    )


def source_of(attrs: PoolAttrs, x: TensorSpec) -> PaddedImages:
    h, v = attrs.axes(x)
    return PaddedImages(x.shape[0], (h.lo, h.hi), (v.lo, v.hi), *x.shape[1:])


def geometry(attrs: PoolAttrs, s: Specs) -> Mapping[str, Any]:
    x = s["x"]
    return {"axes": attrs.axes(x), "source": source_of(attrs, x)}


def inverse_counts(attrs: PoolAttrs, x: TensorSpec) -> Array:
    """Returns 1 / the number of inputs in each window, without padding: (OH, OW, 1)."""

    def counts(a: Axis) -> Array:
        first = np.arange(a.out) * a.stride - a.lo
        return np.minimum(first + a.kernel, a.size) - np.maximum(first, 0)

    h, v = attrs.axes(x)
    return (1 / np.multiply.outer(counts(h), counts(v)))[:, :, np.newaxis].astype(x.dtype)


def average_geometry(attrs: PoolAttrs, s: Specs) -> Mapping[str, Any]:
    return {**geometry(attrs, s), "inverse_counts": inverse_counts(attrs, s["x"])}
