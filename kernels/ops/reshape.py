"""RESHAPE: x with another shape; one entry of the target shape may be −1.

dx is dy with the shape of x. Both are views: no memory is moved.

Source: ReshapeOptions in the TFLite schema; the second input, if present, overrides
options.new_shape.
"""

from collections.abc import Mapping
from math import prod

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.reshape import FORWARD, GRAD_X
from odt.kernels.rows.opdef import Array, Names, OpDef, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef


@dataclass(frozen=True, slots=True)
class ReshapeAttrs:
    shape: tuple[int, ...]


def attrs(options: Options, statics: Mapping[str, Array]) -> ReshapeAttrs:
    target = statics["shape"] if "shape" in statics else options.get("new_shape", ())
    return ReshapeAttrs(tuple(int(n) for n in np.ravel(np.asarray(target))))


def resolve(shape: tuple[int, ...], size: int) -> tuple[int, ...] | None:
    """Replaces −1 in the target shape; None if the shape does not have `size` elements."""
    if shape.count(-1) > 1 or min(shape, default=0) < -1:
        return None
    product = prod(n for n in shape if n != -1)
    if -1 not in shape:
        return shape if product == size else None
    if product == 0 or size % product:
        return None
    return tuple(size // product if n == -1 else n for n in shape)


def infer(attrs: ReshapeAttrs, s: Specs) -> Specs:
    shape = resolve(attrs.shape, s["x"].size)
    if shape is None:
        raise ShapeError(f"the target must hold x's elements, but got {attrs.shape}, x {s['x']}")
    return {"y": TensorSpec(shape, s["x"].dtype)}


def scale_batch(attrs: ReshapeAttrs, s: Specs, times: int) -> ReshapeAttrs:
    """Scales the first entry of the target shape with the batch, even if it is a fixed number."""
    shape = resolve(attrs.shape, s["x"].size)
    if not shape:
        return attrs
    return ReshapeAttrs((shape[0] * times, *shape[1:]))


def mixes_samples(attrs: ReshapeAttrs, s: Specs, batched: Names) -> bool:
    """Whether an entry of axis 0 of y holds values of several samples."""
    shape = resolve(attrs.shape, s["x"].size)
    samples = max(s["x"].shape[0], 1) if s["x"].shape else 1
    return not shape or shape[0] % samples != 0


OP = OpDef(
    "RESHAPE",
    inputs=("x", "shape?"),
    infer=infer,
    forward=FORWARD,
    grads={"x": GRAD_X},
    static=("shape",),
    attrs=attrs,
    scale_batch=scale_batch,
    mixes_samples=mixes_samples,
    takes_complex=True,
    quantized=QuantizedDef(int8=True, int16=True, same="output", values="moved"),
)
