"""Recurrent operators: views along time, activations and their derivatives.

Arrays are (N, T, …), or (T, N, …) if time_major; those of a single step are (N, …). The state
before the first step is zero unless an operator takes it. Products that do not depend on the state
are computed for all steps at once.
"""

from dataclasses import replace

import numpy as np

from odt.errors import ShapeError
from odt.kernels.geometry.activations import BOUNDS, NONE, TANH
from odt.kernels.rows.opdef import Array, Attrs, Names, Options, Specs, TensorSpec


def fused(options: Options) -> int:
    """Reads the code of the fused activation; raises ShapeError if it is unknown."""
    code = int(options.get("fused_activation_function", 0))
    if code not in (TANH, *BOUNDS):
        raise ShapeError(
            f"fused_activation_function must be 0 … {TANH} (NONE, RELU, RELU_N1_TO_1, RELU6, "
            f"TANH), but got {code}"
        )
    return code


def must_be(s: Specs, name: str, *shape: int) -> None:
    """Raises ShapeError if an input is present and has another shape or dtype."""
    spec = TensorSpec(shape, s["x"].dtype)
    if name in s and s[name] != spec:
        raise ShapeError(f"{name} must be {spec}, but got {s[name]}, x {s['x']}")


def check_state(s: Specs, name: str, samples: int, units: int) -> None:
    """Raises ShapeError if an initial state is neither one row nor one row for each sample."""
    is_shared = name in s and s[name].shape == (1, units)
    must_be(s, name, 1 if is_shared else samples, units)


def mixes_along_time(time_axis: int | None, batched: Names) -> bool:
    """Whether axis 0 is time, or inputs other than x are batched."""
    return time_axis == 0 or batched != {"x"}


def batch_first(attrs: Attrs) -> Attrs:
    return replace(attrs, time_axis=1) if attrs.time_axis == 0 else None


def by_time(time_axis: int | None, a: Array) -> Array:
    """Views an array as (T, N, …)."""
    if time_axis is None:
        return a[np.newaxis]
    return a if time_axis == 0 else a.swapaxes(0, 1)


def rows(a: Array) -> Array:
    """Views an array with each step of each sample as a row."""
    return a.reshape(-1, a.shape[-1], copy=False)


def state_before(time_axis: int | None, state: Array, out: Array) -> None:
    """Computes the state before each step: that of the step before, zero for the first."""
    after, before = by_time(time_axis, state), by_time(time_axis, out)
    before[:1] = 0
    before[1:] = after[:-1]


def sum_to(d: Array, out: Array) -> None:
    """Sums the gradient of an initial state over samples, if they share its one row."""
    if len(out) == len(d):
        np.copyto(out, d)
    else:
        np.sum(d, axis=0, keepdims=True, out=out)


def before_each_step(attrs: Attrs, s: Specs) -> Specs:
    """Returns the workspace for the state before each step."""
    return {"before": s["y"]}


def flops(attrs: Attrs, s: Specs) -> int:
    """Counts one sample more: reading the weights at each time step takes about as long."""
    rows = s["y"].size // max(s["y"].shape[-1], 1)
    steps = 1 if attrs.time_axis is None else s["x"].shape[attrs.time_axis]
    return 2 * (rows + steps) * sum(spec.size for n, spec in s.items() if n[0] in "wr")


def activate(code: int, a: Array) -> None:
    """Applies an activation in place."""
    if code == TANH:
        np.tanh(a, out=a)
    elif code != NONE:
        np.clip(a, *BOUNDS[code], out=a)


def sigmoid(a: Array) -> None:
    """Computes 1 / (1 + e⁻ᵃ) in place, as (1 + tanh(a / 2)) / 2, which does not overflow."""
    np.multiply(a, 0.5, out=a)
    np.tanh(a, out=a)
    np.multiply(a, 0.5, out=a)
    np.add(a, 0.5, out=a)


def times_sigmoid_slope(y: Array, dy: Array, work: Array) -> None:
    """Computes dy ← dy y (1 − y), the derivative of a sigmoid y."""
    np.subtract(1, y, out=work)
    np.multiply(work, y, out=work)
    np.multiply(dy, work, out=dy)


def times_slope(code: int, y: Array, dy: Array, work: Array) -> None:
    """Multiplies dy by the derivative of the activation at y: 0 at the bounds of a clamp."""
    if code == TANH:
        np.multiply(y, y, out=work)
        np.subtract(1, work, out=work)
        np.multiply(dy, work, out=dy)
    elif code != NONE:
        inside(y, *BOUNDS[code], dy, work)


def inside(y: Array, lo: float, hi: float, dy: Array, work: Array) -> None:
    """Sets dy to 0 except where lo < y < hi."""
    np.greater(y, lo, out=work)
    np.multiply(dy, work, out=dy)
    np.less(y, hi, out=work)
    np.multiply(dy, work, out=dy)
