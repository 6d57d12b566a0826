"""Compiled fake quantization, and bitmasks: one bit per element, set where the gradient passes."""

from collections.abc import Callable

from odt.kernels.native.binding import Calls, bind
from odt.kernels.native.float32 import FLOAT
from odt.kernels.rows.opdef import Array, Attrs, Compiled, Specs


def fits(attrs: Attrs, s: Specs) -> bool:
    return s["y"].dtype == FLOAT


def pack(lo: float, hi: float) -> Compiled:
    """Makes the kernel that packs lo < y < hi, eight elements in a byte."""

    def to_call(attrs: Attrs, *, y: Array, digest: Array) -> Callable[[], None]:
        return bind("pack_bitmask", y, digest, y.size, float(lo), float(hi))

    return Compiled(to_call, fits)


def bind_keep(a: Array, mask: Array) -> Calls:
    """Returns a compiled call that sets values of an array to 0 where bits are not set.

    Args:
        a: array of float32.
        mask: bits of its values in row-major order, the first in the highest bit of a byte.
    """
    return bind("apply_bitmask", a, mask, a, a.size)


def _apply(attrs: Attrs, *, dy: Array, digest: Array, dx: Array) -> Callable[[], None]:
    return bind("apply_bitmask", dy, digest, dx, dx.size)


APPLY = Compiled(_apply, fits)


def _pass(attrs: Attrs, *, dy: Array, mask: Array, dx: Array) -> Callable[[], None]:
    return bind("apply_bitmask", dy, mask, dx, dx.size)


PASS = Compiled(_pass, lambda attrs, s: s["x"].dtype == FLOAT)


def _fake_quant(
    attrs: Attrs, *, x: Array, y: Array, mask: Array, seen: Array, numbers: Array | None = None
) -> Callable[[], None]:
    numbers = attrs.numbers if numbers is None else numbers
    return bind("fake_quant", x, y, mask, seen, numbers, x.size)


FAKE_QUANT = Compiled(_fake_quant, lambda attrs, s: s["x"].dtype == FLOAT)
