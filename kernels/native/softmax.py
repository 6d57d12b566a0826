"""Compiled softmax, log-softmax and cross-entropies of logits."""

from collections.abc import Callable
from functools import partial

from odt.kernels.geometry.softmax_geometry import CrossEntropyAttrs, prepare
from odt.kernels.native.binding import bind
from odt.kernels.native.float32 import FLOAT
from odt.kernels.rows.opdef import Array, Attrs, Compiled, Specs


def fits(attrs: Attrs, s: Specs) -> bool:
    return s["x"].dtype == FLOAT and s["x"].size > 0


def cross_entropy_fits(attrs: CrossEntropyAttrs, s: Specs) -> bool:
    """Whether the loss is that of logits, with one scale for all samples or for each position."""
    x, scales = s["x"], s["scale"].size
    plain = attrs.from_logits and not attrs.label_smoothing
    by_position = x.shape[0] < scales == x.size // max(x.shape[-1], 1)
    return plain and (scales == 1 or by_position) and fits(attrs, s)


def _cross_entropy(
    kernel: str,
    attrs: CrossEntropyAttrs,
    *,
    x: Array,
    t: Array,
    scale: Array,
    loss: Array,
    p: Array,
    divisor: int,
) -> Callable[[], None]:
    """Returns a call of the kernel for one-hot targets, or for class numbers."""
    classes = x.shape[-1]
    beta, rows = float(attrs.beta), x.size // classes
    by_row = int(scale.size > 1)
    return bind(kernel, x, t, scale, loss, p, rows, classes, by_row, beta, float(divisor))


def _cross_entropy_back(
    kernel: str,
    attrs: CrossEntropyAttrs,
    *,
    x: Array,
    p: Array,
    t: Array,
    scale: Array,
    dx: Array,
    divisor: int,
) -> Callable[[], None]:
    """Returns a call of the gradient's kernel for one-hot targets, or for class numbers."""
    classes = x.shape[-1]
    beta, rows = float(attrs.beta), x.size // classes
    by_row = int(scale.size > 1)
    return bind(kernel, p, t, scale, dx, rows, classes, by_row, beta, float(divisor))


FORWARD = Compiled(partial(_cross_entropy, "cross_entropy"), cross_entropy_fits, prepare=prepare)
GRAD_X = Compiled(
    partial(_cross_entropy_back, "cross_entropy_back"), cross_entropy_fits, prepare=prepare
)
LABELS_FORWARD = Compiled(
    partial(_cross_entropy, "label_entropy"), cross_entropy_fits, prepare=prepare
)
LABELS_GRAD_X = Compiled(
    partial(_cross_entropy_back, "label_entropy_back"), cross_entropy_fits, prepare=prepare
)


def _softmax(attrs: Attrs, *, x: Array, y: Array) -> Callable[[], None]:
    classes = x.shape[-1]
    return bind("softmax", x, y, x.size // classes, classes, float(attrs.beta))


def _softmax_back(attrs: Attrs, *, dy: Array, y: Array, dx: Array) -> Callable[[], None]:
    classes = y.shape[-1]
    return bind("softmax_back", dy, y, dx, y.size // classes, classes, float(attrs.beta))


def _log_softmax(attrs: Attrs, *, x: Array, y: Array) -> Callable[[], None]:
    classes = x.shape[-1]
    return bind("log_softmax", x, y, x.size // classes, classes)


def _log_softmax_back(attrs: Attrs, *, dy: Array, y: Array, dx: Array) -> Callable[[], None]:
    classes = y.shape[-1]
    return bind("log_softmax_back", dy, y, dx, y.size // classes, classes)


SOFTMAX = Compiled(_softmax, fits)
SOFTMAX_BACK = Compiled(_softmax_back, fits)
LOG_SOFTMAX = Compiled(_log_softmax, fits)
LOG_SOFTMAX_BACK = Compiled(_log_softmax_back, fits)
