"""Compiled softmax, log-softmax and cross-entropies of logits."""

from collections.abc import Callable
from functools import partial

from odt.kernels.geometry.softmax_geometry import CrossEntropyAttrs, prepare
from odt.kernels.native.binding import bind
from odt.kernels.native.float32 import FLOAT
from odt.kernels.rows.opdef import Array, Attrs, Compiled, Specs


def fits(attrs: CrossEntropyAttrs, s: Specs) -> bool:
    x = s["x"]
    plain = attrs.from_logits and not attrs.label_smoothing and s["scale"].shape == (1,)
    return plain and x.dtype == FLOAT and x.size > 0


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
    rows, numbers = x.size // classes, (float(attrs.beta), float(divisor))
    return bind(kernel, x, t, scale, loss, p, rows, classes, *numbers)


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
    rows, numbers = x.size // classes, (float(attrs.beta), float(divisor))
    return bind(kernel, p, t, scale, dx, rows, classes, *numbers)


FORWARD = Compiled(partial(_cross_entropy, "cross_entropy"), fits, prepare=prepare)
GRAD_X = Compiled(partial(_cross_entropy_back, "cross_entropy_back"), fits, prepare=prepare)
OF_LABELS = Compiled(partial(_cross_entropy, "label_entropy"), fits, prepare=prepare)
OF_LABELS_BACK = Compiled(partial(_cross_entropy_back, "label_entropy_back"), fits, prepare=prepare)


def _rows(attrs: Attrs, s: Specs) -> bool:
    return s["x"].dtype == FLOAT and s["x"].size > 0


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


SOFTMAX = Compiled(_softmax, _rows)
SOFTMAX_BACK = Compiled(_softmax_back, _rows)
LOG_SOFTMAX = Compiled(_log_softmax, _rows)
LOG_SOFTMAX_BACK = Compiled(_log_softmax_back, _rows)
