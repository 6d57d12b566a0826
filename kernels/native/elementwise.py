"""Kernels that work element by element, in compiled code."""

from collections.abc import Callable

from odt.kernels.native import bind
from odt.kernels.native.products import is_float32
from odt.kernels.opdef import Array, Attrs, Compiled, Specs


def fits(attrs: Attrs, s: Specs) -> bool:
    return is_float32(s)


def clamp(lo: float, hi: float) -> Compiled:
    """y = x between lo and hi."""

    def to_call(attrs: Attrs, *, x: Array, y: Array) -> Callable[[], None]:
        return bind("clamp", x, y, x.size, float(lo), float(hi))

    return Compiled(to_call, fits)


def gate(lo: float, hi: float) -> Compiled:
    """dx = dy where lo < y < hi, else 0."""

    def to_call(attrs: Attrs, *, dy: Array, y: Array, dx: Array) -> Callable[[], None]:
        return bind("gate", dy, y, dx, y.size, float(lo), float(hi))

    return Compiled(to_call, fits)


def _add(
    attrs: Attrs, *, a: Array, b: Array, y: Array, clamp: tuple[float, float] | None = None
) -> Callable[[], None]:
    lo, hi = clamp or (float("-inf"), float("inf"))
    return bind("add", a, b, y, y.size, float(lo), float(hi))


def _one_shape(attrs: Attrs, s: Specs) -> bool:
    return s["a"].shape == s["b"].shape and s["a"].dtype == "float32"


ADD = Compiled(_add, _one_shape, takes=frozenset({"clamp"}))


def _column_sums(attrs: Attrs, *, dy: Array, db: Array) -> Callable[[], None]:
    return bind("column_sums", dy, db, dy.size // db.size, db.size)


COLUMN_SUMS = Compiled(_column_sums, fits)
