"""Compiled cumulative sums, products and sines."""

from collections.abc import Callable
from typing import Any

from odt.kernels.geometry.reduce_geometry import ReduceAttrs, prepare
from odt.kernels.native.binding import Calls, bind, in_order
from odt.kernels.native.elementwise import call, reduced_sizes
from odt.kernels.native.float32 import FLOAT
from odt.kernels.native.typed import sizes_around
from odt.kernels.rows.opdef import Array, Attrs, Compiled, Specs, TensorSpec


def _is_float(attrs: Attrs, s: Specs) -> bool:
    return s["x"].dtype == FLOAT and s["x"].size > 0


def _cumulative_sum(attrs: Any, x: Array, y: Array, *, reverse: bool) -> Calls:
    sizes = sizes_around(x.shape, attrs.axis % x.ndim)
    return bind("cumulative_sum", x, y, *sizes, attrs.exclusive, reverse)


def _cumsum(attrs: Any, *, x: Array, y: Array) -> Calls:
    return _cumulative_sum(attrs, x, y, reverse=attrs.reverse)


def _cumsum_back(attrs: Any, *, dy: Array, dx: Array) -> Calls:
    return _cumulative_sum(attrs, dy, dx, reverse=not attrs.reverse)


CUMSUM, CUMSUM_BACK = Compiled(_cumsum, _is_float), Compiled(_cumsum_back, _is_float)


def _sizes(attrs: ReduceAttrs, x: Array) -> list[int]:
    sizes = reduced_sizes(attrs, TensorSpec(x.shape, x.dtype))
    assert sizes is not None, "fits is false"
    return sizes


def _product(attrs: ReduceAttrs, *, x: Array, y: Array, **geometry: Any) -> Calls:
    return bind("product", x, y, *_sizes(attrs, x))


def _product_back(attrs: ReduceAttrs, *, dy: Array, x: Array, dx: Array, **geometry: Any) -> Calls:
    return bind("product_back", dy, x, dx, *_sizes(attrs, x))


def _reduces_once(attrs: ReduceAttrs, s: Specs) -> bool:
    return _is_float(attrs, s) and reduced_sizes(attrs, s["x"]) is not None


PRODUCT = Compiled(_product, _reduces_once, prepare=prepare)
PRODUCT_BACK = Compiled(_product_back, _reduces_once, prepare=prepare)


def sines(quarter: int) -> Compiled:
    """Makes y = sin(x + quarter · π/2); the quarter is 0 or 1."""

    def to_call(attrs: Attrs, *, x: Array, y: Array) -> Calls:
        return bind("sines", x, y, x.size, quarter)

    return Compiled(to_call, _is_float)


def sines_back(quarter: int, factor: float) -> Compiled:
    """Makes dx = factor · dy · sin(x + quarter · π/2)."""

    def to_call(attrs: Attrs, *, dy: Array, x: Array, dx: Array) -> Callable[[], None]:
        sine = bind("sines", x, dx, x.size, quarter)
        return in_order([sine, call("multiply", dx, (dx, dy), factor)])

    return Compiled(to_call, _is_float)
