"""FAKE_QUANT: y = s · min(max(round(x / s), lo), hi), the nearest number that an integer can store.

s is the scale, lo and hi are the integers' limits minus their zero point, and halves are rounded to
even.

numbers (4,), optional: 1 / s, s, lo and hi, if they change during training

mask (⌈n / 8⌉,), for backward: one bit for each of n elements, set where lo ≤ x / s ≤ hi

seen (4,): the smallest and the largest value of x, and 0; the fractions of values below and above
the limits

dx = dy where the bit is set, else 0: the straight-through estimator of Bengio et al., *Estimating
or Propagating Gradients Through Stochastic Neurons* (2013). Source of the range and its limits:
TFLite's reference kernel.
"""

import math
from collections.abc import Mapping

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.clamp_digest import unpack_bits
from odt.kernels.families.elementwise import BOOL, IN_PLACE, IN_PLACE_BACK, float_like_x
from odt.kernels.geometry.axes import same
from odt.kernels.geometry.quantize import fake_quant_numbers
from odt.kernels.native import bitmask
from odt.kernels.rows.opdef import TILE, Array, Attrs, Kernel, OpDef, Options, Specs, TensorSpec

MAX_BITS = 16
FLOAT = np.finfo(np.float32)


@dataclass(frozen=True, slots=True)
class FakeQuantAttrs:
    """The numbers that can be represented: scale · k for all integers k from lo to hi."""

    scale: float
    lo: int
    hi: int

    @property
    def numbers(self) -> Array:
        """1 / scale, scale, lo and hi."""
        return fake_quant_numbers(self.scale, self.lo, self.hi)


def attrs(options: Options, statics: Mapping[str, Array]) -> FakeQuantAttrs:
    """Reads scale, lo and hi, or computes them from the schema's min, max and number of bits."""
    if "scale" in options:
        return FakeQuantAttrs(*(options[n] for n in ("scale", "lo", "hi")))
    bits, least, most = (options[n] for n in ("num_bits", "min", "max"))
    if not 2 <= bits <= MAX_BITS or not least <= 0 <= most:
        raise ShapeError(
            f"num_bits must be 2 to {MAX_BITS}, and the range must contain 0, "
            f"but got {bits} bits for {least} to {most}"
        )
    first, last = int(bool(options["narrow_range"])), 2**bits - 1
    narrowest, widest = float(FLOAT.tiny) * (last - first), float(FLOAT.max)
    if not narrowest <= most - least <= widest:
        raise ShapeError(
            f"the range must be {narrowest:.3g} to {widest:.3g} wide, but got {least:g} to {most:g}"
        )
    scale = float(np.float32(most - least) / np.float32(last - first))
    zero_point = min(max(math.floor(first - least / scale + 0.5), first), last)
    return FakeQuantAttrs(scale, first - zero_point, last - zero_point)


def aux(attrs: Attrs, s: Specs) -> Specs:
    mask = TensorSpec((-(-s["y"].size // 8),), np.dtype(np.uint8))
    return {"mask": mask, "seen": TensorSpec((4,), s["y"].dtype)}


def workspace(attrs: Attrs, s: Specs) -> Specs:
    inside = TensorSpec((min(TILE, s["x"].size),), BOOL)
    return {"part": TensorSpec(inside.shape, s["x"].dtype), "inside": inside, "below": inside}


def forward(
    attrs: FakeQuantAttrs,
    *,
    x: Array,
    y: Array,
    mask: Array,
    seen: Array,
    part: Array,
    inside: Array,
    below: Array,
    numbers: Array | None = None,
) -> None:
    x_flat, y_flat = x.reshape(-1, copy=False), y.reshape(-1, copy=False)
    inverse, scale, lo, hi = (attrs.numbers if numbers is None else numbers).astype(x.dtype)
    seen.fill(0)
    for at in range(0, x_flat.size, TILE):
        values = x_flat[at : at + TILE]
        count = values.size
        steps, lower, upper = part[:count], inside[:count], below[:count]
        np.multiply(values, inverse, out=steps)
        np.greater_equal(steps, lo, out=lower)
        np.less_equal(steps, hi, out=upper)
        seen[0], seen[1] = min(seen[0], values.min()), max(seen[1], values.max())
        seen[2] += count - np.count_nonzero(lower)
        seen[3] += count - np.count_nonzero(upper)
        np.logical_and(lower, upper, out=lower)
        bits = np.packbits(lower)
        mask[at // 8 : at // 8 + bits.size] = bits
        np.clip(steps, lo, hi, out=steps)
        np.rint(steps, out=steps)
        np.multiply(steps, scale, out=y_flat[at : at + TILE])
    seen[2:] /= max(x.size, 1)


def grad_x(attrs: FakeQuantAttrs, *, dy: Array, mask: Array, dx: Array) -> None:
    unpack_bits(mask, dy, dx)


OP = OpDef(
    "FAKE_QUANT",
    inputs=("x", "numbers?"),
    infer=float_like_x,
    forward=Kernel(
        forward,
        reads=("x", "numbers?"),
        writes=("y", "mask", "seen"),
        workspace=workspace,
        may_alias=IN_PLACE,
        compiled=bitmask.FAKE_QUANT,
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "mask"),
            writes=("dx",),
            may_alias=IN_PLACE_BACK,
            compiled=bitmask.PASS,
        )
    },
    stops=("numbers",),
    aux=aux,
    attrs=attrs,
    permute=same,
)
