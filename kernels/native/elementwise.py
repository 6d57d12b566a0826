"""Sums over rows, in compiled code."""

from collections.abc import Callable

from odt.kernels.native import bind
from odt.kernels.native.products import is_float32
from odt.kernels.opdef import Array, Attrs, Compiled, Specs


def fits(attrs: Attrs, s: Specs) -> bool:
    return is_float32(s)


def _column_sums(attrs: Attrs, *, dy: Array, db: Array) -> Callable[[], None]:
    return bind("column_sums", dy, db, dy.size // db.size, db.size)


COLUMN_SUMS = Compiled(_column_sums, fits)
