"""Compiled L2, RMS and instance normalization."""

from collections.abc import Callable

from odt.kernels.native.binding import bind
from odt.kernels.native.elementwise import column_sums
from odt.kernels.native.float32 import FLOAT
from odt.kernels.rows.opdef import Array, Attrs, Compiled, Specs


def fits(attrs: Attrs, s: Specs) -> bool:
    specs = [s[n] for n in ("x", "gamma", "beta") if n in s]
    return all(spec.dtype == FLOAT and spec.size for spec in specs)


def l2(smallest: float) -> tuple[Compiled, Compiled]:
    """Makes the kernels of L2_NORMALIZATION; norms are at least `smallest`."""

    def forward(attrs: Attrs, *, x: Array, y: Array, norm: Array) -> Callable[[], None]:
        return bind("l2_norm", x, y, norm, norm.size, x.shape[-1], smallest)

    def back(attrs: Attrs, *, dy: Array, y: Array, norm: Array, dx: Array) -> Callable[[], None]:
        return bind("l2_norm_back", dy, y, norm, dx, norm.size, y.shape[-1], smallest)

    return Compiled(forward, fits), Compiled(back, fits)


def _rms(epsilon: float, *, x: Array, gamma: Array, y: Array, inv: Array) -> Callable[[], None]:
    return bind("rms_norm", x, gamma, y, inv, inv.size, gamma.size, epsilon)


def _rms_back(
    epsilon: float, *, dy: Array, x: Array, gamma: Array, inv: Array, dx: Array
) -> Callable[[], None]:
    return bind("rms_norm_back", dy, x, gamma, inv, dx, inv.size, gamma.size)


RMS, RMS_BACK = Compiled(_rms, fits), Compiled(_rms_back, fits)


def _sizes(x: Array) -> tuple[int, int, int]:
    """Returns the numbers of images, rows of an image, and channels."""
    return x.shape[0], x.size // (x.shape[0] * x.shape[-1]), x.shape[-1]


def _instance(
    epsilon: float, *, x: Array, gamma: Array, beta: Array, y: Array, mean: Array, inv: Array
) -> Callable[[], None]:
    return bind("instance_norm", x, gamma, beta, y, mean, inv, *_sizes(x), epsilon)


def _instance_back(
    epsilon: float, *, dy: Array, x: Array, gamma: Array, mean: Array, inv: Array, dx: Array
) -> Callable[[], None]:
    return bind("instance_norm_back", dy, x, gamma, mean, inv, dx, *_sizes(x))


def _instance_scale(
    epsilon: float, *, dy: Array, x: Array, mean: Array, inv: Array, dgamma: Array
) -> Callable[[], None]:
    return bind("instance_norm_scale", dy, x, mean, inv, dgamma, *_sizes(x))


def _instance_shift(epsilon: float, *, dy: Array, dbeta: Array) -> Callable[[], None]:
    return column_sums(dy, dbeta, dbeta.size)


INSTANCE, INSTANCE_BACK = Compiled(_instance, fits), Compiled(_instance_back, fits)
INSTANCE_SCALE, INSTANCE_SHIFT = Compiled(_instance_scale, fits), Compiled(_instance_shift, fits)
