"""Compiled Kullback-Leibler divergence and focal losses of logits, from maps."""

from collections.abc import Callable
from typing import Any

import numpy as np

from odt.kernels.geometry.softmax_geometry import SMALLEST, TINY, CrossEntropyAttrs, prepare
from odt.kernels.native.binding import bind, in_order
from odt.kernels.native.elementwise import call
from odt.kernels.native.float32 import FLOAT
from odt.kernels.native.losses import INFINITY, Loop, in_runs, of_logits, smoothed
from odt.kernels.rows.opdef import Array, Compiled, Specs, TensorSpec

ONE, MINUS_ONE = np.ones(1, FLOAT), np.full(1, -1, FLOAT)


def _workspace(*like_x: str, smooths: bool = True) -> Callable[[Any, Specs], Specs]:
    """Makes the workspace: names of arrays like x, and a value for each row, sample and scale."""

    def workspace(attrs: Any, s: Specs) -> Specs:
        x = s["x"]
        smooth = {"smooth": x} if smooths and attrs.label_smoothing else {}
        count = max(x.size // x.shape[-1], x.shape[0], s["scale"].size)
        rows = TensorSpec((count,), FLOAT)
        return {**dict.fromkeys(like_x, x), **smooth, "sums": rows}

    return workspace


def _total(
    loss: Array, sums: Array, scale: Array, factors: tuple[Array, Array], factor: float
) -> list[Loop]:
    """Returns the calls of loss = factor · Σ scale · product of both factors."""
    runs = [a.reshape(scale.size, -1, copy=False) for a in factors]
    part = sums[: scale.size]
    summed = call("multiply", part[:, np.newaxis], runs)
    return [summed, call("multiply", loss, (part, scale), factor)]


def _scaled(dx: Array, scale: Array, factor: float) -> Loop:
    """Returns the call of dx ← factor · scale · dx."""
    rows = dx.reshape(scale.size, -1, copy=False)
    return call("multiply", rows, (rows, scale[:, np.newaxis]), factor)


def _log_probabilities(beta: float, x: Array, p: Array, logs: Array) -> list[Loop]:
    """Returns the calls of p = softmax(β x) and its logarithm."""
    sizes = x.size // x.shape[-1], x.shape[-1]
    return [
        call("scale", p, (x,), beta),
        bind("log_softmax", p, logs, *sizes),
        call("exp", p, (logs,)),
    ]


def _divergence(
    attrs: CrossEntropyAttrs,
    *,
    x: Array,
    t: Array,
    scale: Array,
    loss: Array,
    p: Array,
    divisor: int,
    sums: Array,
    logs: Array,
    terms: Array,
) -> Loop:
    return in_order(
        [
            *_log_probabilities(attrs.beta, x, p, logs),
            call("clamp", terms, (t,), SMALLEST, INFINITY),
            call("log", terms, (terms,)),
            call("subtract", terms, (terms, logs)),
            *_total(loss, sums, scale, (terms, t), 1 / divisor),
        ]
    )


def _categorical(
    attrs: Any,
    *,
    x: Array,
    t: Array,
    scale: Array,
    loss: Array,
    p: Array,
    divisor: int,
    sums: Array,
    logs: Array,
    rest: Array,
    smooth: Array | None = None,
) -> Loop:
    """1 − p is from log p, so that it keeps its digits near p = 1."""
    t, smoothing = smoothed(attrs, t, smooth, t.shape[-1])
    return in_order(
        [
            *_log_probabilities(attrs.beta, x, p, logs),
            call("elu", rest, (logs,)),  # e^(log p) − 1
            call("scale", rest, (rest,), -1.0),
            _power(rest, attrs.gamma),
            call("multiply", logs, (logs, rest)),
            *smoothing,
            *_total(loss, sums, scale, (logs, t), -attrs.alpha / divisor),
        ]
    )


def _power(a: Array, exponent: float) -> Loop:
    return call("power", a, (a, np.full(1, exponent, FLOAT)))


def _categorical_back(
    attrs: Any,
    *,
    x: Array,
    t: Array,
    scale: Array,
    dx: Array,
    p: Array,
    divisor: int,
    sums: Array,
    rest: Array,
    smooth: Array | None = None,
) -> Loop:
    """dx = α β (h − p Σ h), h = t (1 − p)^γ (γ p ln p / (1 − p) − 1)."""
    t, smoothing = smoothed(attrs, t, smooth, t.shape[-1])
    p2, dx2, rest2 = (a.reshape(-1, t.shape[-1], copy=False) for a in (p, dx, rest))
    row = sums[: len(p2), np.newaxis]
    return in_order(
        [
            *smoothing,
            call("subtract", rest, (ONE, p)),
            call("clamp", rest, (rest,), TINY, INFINITY),
            call("clamp", dx, (p,), TINY, INFINITY),
            call("log", dx, (dx,)),
            call("multiply", dx, (dx, p)),
            call("divide", dx, (dx, rest), attrs.gamma),
            call("add", dx, (dx, MINUS_ONE), -INFINITY, INFINITY),
            _power(rest, attrs.gamma),
            call("multiply_three", dx, (dx, rest, t)),
            call("scale", row, (dx2,)),
            call("multiply", rest2, (p2, row)),
            call("subtract", dx, (dx, rest)),
            _scaled(dx, scale, attrs.alpha * attrs.beta / divisor),
        ]
    )


def _alpha(attrs: Any) -> tuple[float, float]:
    """Returns the weight of positives, and a factor of the loss; equal weights are ½."""
    return (attrs.alpha, 1.0) if attrs.apply_class_balancing else (0.5, 2.0)


def _more_powers(attrs: Any, x: Array, t: Array, powers: Array | None) -> list[Loop]:
    """Returns the calls of powers = m^(γ − 2); the maps of the loss have the factor m²."""
    return [] if powers is None else [call("focal_powers", powers, (x, t), attrs.gamma - 2)]


def _binary(
    attrs: Any,
    *,
    x: Array,
    t: Array,
    scale: Array,
    loss: Array,
    divisor: int,
    sums: Array,
    powers: Array | None = None,
    smooth: Array | None = None,
) -> Loop:
    t, smoothing = smoothed(attrs, t, smooth, 2)
    alpha, factor = _alpha(attrs)
    runs = in_runs(scale, x, t)
    runs.append(ONE if powers is None else powers.reshape(runs[0].shape, copy=False))
    part = sums[: len(runs[0])]
    return in_order(
        [
            *smoothing,
            *_more_powers(attrs, x, t, powers),
            call("binary_focal", part[:, np.newaxis], runs, q=alpha),
            call("multiply", loss, (part, scale), factor / divisor),
        ]
    )


def _binary_back(
    attrs: Any,
    *,
    x: Array,
    t: Array,
    scale: Array,
    dx: Array,
    divisor: int,
    sums: Array,
    powers: Array | None = None,
    smooth: Array | None = None,
) -> Loop:
    t, smoothing = smoothed(attrs, t, smooth, 2)
    alpha, factor = _alpha(attrs)
    part = sums[: scale.size]
    rows, *runs = in_runs(scale, dx, x, t)
    calls = [
        *smoothing,
        *_more_powers(attrs, x, t, powers),
        call("scale", part, (scale,), factor / divisor),
        call("binary_focal_back", rows, (*runs, part[:, np.newaxis]), attrs.gamma, alpha),
    ]
    if powers is not None:
        calls.append(call("multiply", dx, (dx, powers)))
    return in_order(calls)


def _binary_workspace(attrs: Any, s: Specs) -> Specs:
    powers = {} if attrs.gamma == 2 else {"powers": s["x"]}
    return {**_workspace()(attrs, s), **powers}


DIVERGENCE = Compiled(_divergence, of_logits, _workspace("logs", "terms", smooths=False), prepare)
CATEGORICAL = Compiled(_categorical, of_logits, _workspace("logs", "rest"), prepare)
CATEGORICAL_BACK = Compiled(_categorical_back, of_logits, _workspace("rest"), prepare)


def binary(divisor: Callable[[Any, Specs], Any]) -> tuple[Compiled, Compiled]:
    """Makes the compiled forms of the binary focal loss and its gradient.

    Args:
        divisor: `prepare` of the loss.
    """
    return (
        Compiled(_binary, of_logits, _binary_workspace, divisor),
        Compiled(_binary_back, of_logits, _binary_workspace, divisor),
    )
