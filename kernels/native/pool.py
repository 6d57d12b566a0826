"""Compiled kernels of MAX_POOL_2D and AVERAGE_POOL_2D."""

from collections.abc import Callable

from odt.kernels.geometry.conv_geometry import Axes
from odt.kernels.geometry.im2col import PaddedImages
from odt.kernels.geometry.pool_geometry import NO_TAP, PoolAttrs, geometry
from odt.kernels.native.binding import bind
from odt.kernels.native.float32 import is_float32
from odt.kernels.native.structs import WindowWalk
from odt.kernels.native.window_walk import reading, results, taps, window_walk
from odt.kernels.rows.opdef import Array, Compiled, ReluMask, Specs


def fits(attrs: PoolAttrs, s: Specs) -> bool:
    return is_float32(s)


def walk(x: Array, y: Array, axes: Axes) -> WindowWalk:
    """Returns the descriptor of the windows of x and the results y."""
    h, v = axes
    return window_walk(taps(h, 0), taps(v, 0), **reading(x), **results(y, axes))


def columns(x: Array, axes: Axes) -> tuple[int, int, int] | None:
    """Returns the sizes of x as (outer, reduced, inner) if one window is the whole image."""
    n, height, width, channels = x.shape
    whole = all(a.out == 1 and a.kernel - a.lo >= a.size for a in axes)
    return (n, height * width, channels) if whole else None


def max_forward(
    attrs: PoolAttrs, *, x: Array, y: Array, axes: Axes, source: PaddedImages
) -> Callable[[], None]:
    if sizes := columns(x, axes):
        return bind("extreme", x, y, *sizes, 0)
    return bind("max_pool", x, y, walk(x, y, axes))


def max_back(
    attrs: PoolAttrs,
    *,
    dy: Array,
    x: Array,
    y: Array,
    dx: Array,
    axes: Axes,
    source: PaddedImages,
    relu_mask: ReluMask | None = None,
) -> Callable[[], None]:
    """Binds the gradient. The ReLU mask tests x, which equals y at the maximum, so C tests y."""
    _, lo, hi = relu_mask or (None, 0.0, 0.0)
    mask = int(relu_mask is not None), float(lo), float(hi)
    if sizes := columns(x, axes):
        return bind("extreme_back", dy, x, y, dx, *sizes, 1, *mask)
    return bind("max_pool_back", dy, x, y, dx, walk(x, y, axes), *mask)


def mean_forward(
    attrs: PoolAttrs, *, x: Array, y: Array, axes: Axes, source: PaddedImages
) -> Callable[[], None]:
    return bind("average_pool", x, y, walk(x, y, axes))


def mean_back(
    attrs: PoolAttrs, *, dy: Array, dx: Array, axes: Axes, source: PaddedImages
) -> Callable[[], None]:
    return bind("average_pool_back", dy, dx, walk(dx, dy, axes))


def argmax(
    attrs: PoolAttrs, *, x: Array, y: Array, digest: Array, axes: Axes, source: PaddedImages
) -> Callable[[], None]:
    return bind("max_pool_argmax", x, y, digest, walk(x, y, axes), NO_TAP)


def argmax_back(
    attrs: PoolAttrs, *, dy: Array, digest: Array, dx: Array, axes: Axes, source: PaddedImages
) -> Callable[[], None]:
    return bind("max_pool_argmax_back", dy, digest, dx, walk(dx, dy, axes))


ARGMAX = Compiled(argmax, fits, prepare=geometry)
ARGMAX_BACK = Compiled(argmax_back, fits, prepare=geometry)
MAX_FORWARD = Compiled(max_forward, fits, prepare=geometry)
MAX_BACK = Compiled(max_back, fits, prepare=geometry, takes=frozenset({"relu_mask"}))
MEAN_FORWARD = Compiled(mean_forward, fits, prepare=geometry)
MEAN_BACK = Compiled(mean_back, fits, prepare=geometry)
