"""Compiled losses that are sums over elements, from maps: see src/elementwise_maps.h."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from odt.kernels.native.binding import in_order
from odt.kernels.native.elementwise import call
from odt.kernels.native.float32 import FLOAT
from odt.kernels.rows.opdef import Array, Attrs, Compiled, Specs, TensorSpec

INFINITY = float("inf")
Loop = Callable[[], None]


def _is_float(attrs: Attrs, s: Specs) -> bool:
    return s["x"].dtype == FLOAT and s["x"].size > 0


def of_logits(attrs: Any, s: Specs) -> bool:
    """Whether a loss is that of logits in float32."""
    return bool(attrs.from_logits) and _is_float(attrs, s)


def _workspace(*like_x: str, per_run: Sequence[str] = ("sums",)) -> Callable[[Attrs, Specs], Specs]:
    """Makes the workspace: names of arrays like x, and of those with a value for each run.

    Runs have a scale of their own, or are the samples.
    """

    def workspace(attrs: Attrs, s: Specs) -> Specs:
        runs = max(s["scale"].size, s["x"].shape[0])
        by_run = TensorSpec((runs,), FLOAT)
        return {**dict.fromkeys(per_run, by_run), **dict.fromkeys(like_x, s["x"])}

    return workspace


def in_runs(scale: Array, *arrays: Array) -> list[Array]:
    """Returns arrays as rows: those with a scale of their own, or the samples."""
    rows = scale.size if scale.size > 1 else len(arrays[0])
    return [a.reshape(rows, -1, copy=False) for a in arrays]


def _elements(x: Array) -> float:
    return x.size / len(x)


def _scaled(loss: Array, sums: Array, scale: Array, divisor: float) -> Loop:
    return call("multiply", loss, (sums, scale), 1 / divisor)


def _scale_gradient(dx: Array, scale: Array, divisor: float) -> Loop:
    (rows,) = in_runs(scale, dx)
    return call("multiply", rows, (rows, scale[:, np.newaxis]), 1 / divisor)


def _squared_error(
    attrs: Attrs, *, x: Array, t: Array, scale: Array, loss: Array, sums: Array
) -> Loop:
    summed = call("squared_difference", sums[:, np.newaxis], in_runs(scale, x, t))
    return in_order([summed, _scaled(loss, sums, scale, _elements(x))])


def _squared_error_back(attrs: Attrs, *, x: Array, t: Array, scale: Array, dx: Array) -> Loop:
    dx_runs, *samples = in_runs(scale, dx, x, t)
    read = scale[:, np.newaxis], *samples
    return call("squared_difference_back", dx_runs, read, 2 / _elements(x))


def _absolute_error(
    attrs: Attrs, *, x: Array, t: Array, scale: Array, loss: Array, sums: Array, e: Array
) -> Loop:
    (rows,) = in_runs(scale, e)
    return in_order(
        [
            call("subtract", e, (x, t)),
            call("abs", sums[:, np.newaxis], (rows,)),
            _scaled(loss, sums, scale, _elements(x)),
        ]
    )


def _absolute_error_back(
    attrs: Attrs, *, x: Array, t: Array, scale: Array, dx: Array, sums: Array
) -> Loop:
    (rows,), part = in_runs(scale, dx), sums[: scale.size]
    return in_order(
        [
            call("subtract", dx, (x, t)),
            call("scale", part, (scale,), 1 / _elements(x)),
            call("abs_back", rows, (part[:, np.newaxis], rows)),
        ]
    )


def _huber(
    attrs: Any,
    *,
    x: Array,
    t: Array,
    scale: Array,
    loss: Array,
    sums: Array,
    halves: Array,
    e: Array,
    inner: Array,
) -> Loop:
    """Σ c |e| − Σ c² / 2 with c = min(|e|, δ)."""
    rows, least = in_runs(scale, e, inner)
    return in_order(
        [
            call("subtract", e, (x, t)),
            call("abs", e, (e,)),
            call("clamp", inner, (e,), -INFINITY, attrs.delta),
            call("multiply", sums[:, np.newaxis], (rows, least)),
            call("multiply", halves[:, np.newaxis], (least, least), 0.5),
            call("subtract", sums, (sums, halves)),
            _scaled(loss, sums, scale, _elements(x)),
        ]
    )


def _huber_back(attrs: Any, *, x: Array, t: Array, scale: Array, dx: Array) -> Loop:
    return in_order(
        [
            call("subtract", dx, (x, t)),
            call("clamp", dx, (dx,), -attrs.delta, attrs.delta),
            _scale_gradient(dx, scale, _elements(x)),
        ]
    )


def smoothed(
    attrs: Any, t: Array, smooth: Array | None, classes: int
) -> tuple[Array, Sequence[Loop]]:
    """Returns the targets, and the calls that compute them."""
    if smooth is None:
        return t, ()
    part = np.full(1, attrs.label_smoothing / classes, FLOAT)
    scaled = call("scale", smooth, (t,), 1 - attrs.label_smoothing)
    return smooth, (scaled, call("add", smooth, (smooth, part), -INFINITY, INFINITY))


def _log_terms(x: Array, t: Array, terms: Array, part: Array) -> list[Loop]:
    """Returns the calls of terms = max(x, 0) − x t, and of part = ln σ(|x|)."""
    return [
        call("clamp", terms, (x,), 0.0, INFINITY),
        call("multiply", part, (x, t)),
        call("subtract", terms, (terms, part)),
        call("abs", part, (x,)),
        call("logistic", part, (part,)),
        call("log", part, (part,)),
    ]


def _binary_cross_entropy(
    attrs: Any,
    *,
    x: Array,
    t: Array,
    scale: Array,
    loss: Array,
    divisor: int,
    sums: Array,
    terms: Array,
    part: Array,
    smooth: Array | None = None,
) -> Loop:
    """Σ (max(x, 0) − x t) − Σ ln σ(|x|)."""
    t, smoothing = smoothed(attrs, t, smooth, 2)
    rows, logs = in_runs(scale, terms, part)
    row_sums = sums[: len(rows)]
    return in_order(
        [
            *smoothing,
            *_log_terms(x, t, terms, part),
            call("subtract", row_sums[:, np.newaxis], (rows, logs)),
            _scaled(loss, row_sums, scale, divisor),
        ]
    )


def _binary_cross_entropy_back(
    attrs: Any,
    *,
    x: Array,
    t: Array,
    scale: Array,
    dx: Array,
    divisor: int,
    smooth: Array | None = None,
) -> Loop:
    t, smoothing = smoothed(attrs, t, smooth, 2)
    gradient = call("logistic", dx, (x,)), call("subtract", dx, (dx, t))
    return in_order([*smoothing, *gradient, _scale_gradient(dx, scale, divisor)])


def binary_cross_entropy(workspace: Callable[[Any, Specs], Specs], prepare: Any) -> list[Compiled]:
    """Makes the compiled forms of the loss of logits, and of its gradient.

    Args:
        workspace: workspace for smoothed targets.
        prepare: returns the divisor.
    """

    def both(attrs: Any, s: Specs) -> Specs:
        return {**_workspace("terms", "part")(attrs, s), **workspace(attrs, s)}

    return [
        Compiled(_binary_cross_entropy, of_logits, both, prepare),
        Compiled(_binary_cross_entropy_back, of_logits, workspace, prepare),
    ]


SQUARED_ERROR = Compiled(_squared_error, _is_float, _workspace())
SQUARED_ERROR_BACK = Compiled(_squared_error_back, _is_float)
ABSOLUTE_ERROR = Compiled(_absolute_error, _is_float, _workspace("e"))
ABSOLUTE_ERROR_BACK = Compiled(_absolute_error_back, _is_float, _workspace())
HUBER = Compiled(_huber, _is_float, _workspace("e", "inner", per_run=("sums", "halves")))
HUBER_BACK = Compiled(_huber_back, _is_float)
