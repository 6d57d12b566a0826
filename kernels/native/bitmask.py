"""The bits of a clamp, kept and read in compiled code."""

from collections.abc import Callable

from odt.kernels.native.binding import bind
from odt.kernels.native.float32 import FLOAT
from odt.kernels.opdef import Array, Attrs, Compiled, Specs


def fits(attrs: Attrs, s: Specs) -> bool:
    return s["y"].dtype == FLOAT


def keep(lo: float, hi: float) -> Compiled:
    """kept = whether lo < y < hi, eight elements in a byte."""

    def to_call(attrs: Attrs, *, y: Array, kept: Array) -> Callable[[], None]:
        return bind("pack_bitmask", y, kept, y.size, float(lo), float(hi))

    return Compiled(to_call, fits)


def _back(attrs: Attrs, *, dy: Array, kept: Array, dx: Array) -> Callable[[], None]:
    return bind("apply_bitmask", dy, kept, dx, dx.size)


BACK = Compiled(_back, fits)
