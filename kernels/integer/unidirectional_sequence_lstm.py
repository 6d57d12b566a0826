"""INTEGER_UNIDIRECTIONAL_SEQUENCE_LSTM: long short-term memory over time, of quantized tensors.

x (N, T, I), or (T, N, I) if time_major    y (N, T, P)
G gates f g o i, or f g o if the input gate is coupled (kernels/families/lstm.py):
w (G O, I)    r (G O, P)    b, br (G O,)    m, mr (4, G O): factors in fixed_factor's form
p (5, G O): peepholes and their factors; (5, 0) without them
wp (P, O), bp (5, P): the projection, its products of zero points, and its factor; without it
(0, O) and (5, 0), and P = O

zₜ = (w xₜ + b) m + (r hₜ₋₁ + br) mr in steps of 2⁻¹²; σ and tanh in steps of 1 / q, q = 2¹⁵:
cₜ = fₜ cₜ₋₁ / q + iₜ gₜ / (q² s_c), limited to ± cell_clip, with i = q − 1 − f if it is coupled
eₜ = oₜ tanh(cₜ) / (q² s_e) − z_e; hₜ = (wp eₜ + bp) s_wp s_e / s_h + z_h; y = h
hₜ = oₜ tanh(cₜ) / (q² s_h) + z_h without a projection
Peepholes add p c to z: the cell before the step to f and i, the new one to o.

Each term is rounded to an integer, and each sum limited to its type. b and br contain the products
of zero points with weights; m stands for s_x s_w 2¹², mr for s_h s_r 2¹², with 31 bits. The zero
point of e counts with the other sign, as in LiteRT, which matters only where e is limited.
Source: TFLite's 8-bit quantization specification and its full-integer LSTM; fixed_point.py.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.lstm import lstm_attrs, names_of, part
from odt.kernels.families.recurrent import batch_first, by_time, mixes_along_time
from odt.kernels.families.requantize import (
    QuantizedTensor,
    Rounding,
    Tensors,
    exact_float,
    largest,
    quantized,
    rounding,
)
from odt.kernels.geometry.activations import TANH
from odt.kernels.geometry.fixed_point import HI, LO, ONE_BITS, logistic, tanh
from odt.kernels.geometry.recurrent_geometry import CELL, FORGET, INPUT, OUTPUT
from odt.kernels.native import integer
from odt.kernels.rows.opdef import (
    Arithmetic,
    Array,
    Compiled,
    Kernel,
    Names,
    OpDef,
    Options,
    Specs,
    TensorSpec,
)

CONSTANTS = ("w", "r", "b", "br", "m", "mr", "p", "wp", "bp")
INPUTS = ("x", *CONSTANTS)
GATE_BITS = 3  # integer bits of a gate before σ or tanh
STEP = np.float32(2.0 ** (GATE_BITS - 15))
MOST_BITS = 31  # of the powers of two in a factor
INT64 = np.dtype(np.int64)


@dataclass(frozen=True, slots=True)
class IntegerLstmAttrs:
    """Axis of time, exponent of the cell's scale, its bound, factor and rounding of e, and of h."""

    time_axis: int
    exponent: int
    clip: int
    m: tuple[int, int, int, int]
    hidden: Rounding
    to: Rounding


def attrs(options: Options, statics: Mapping[str, Array]) -> IntegerLstmAttrs:
    h, c = (quantized(options)[n] for n in "hc")
    axis = 0 if options.get("time_major", False) else 1
    lstm = lstm_attrs(options, axis)
    if lstm.activation != TANH:
        raise ShapeError(f"fused_activation_function must be {TANH}, but got {lstm.activation}")
    clip = min(lstm.cell_clip / c.scale, HI) if lstm.cell_clip else HI
    to = rounding({**options, "fused_activation_function": 0})
    exponent = int(np.log2(c.scale))
    scale, hidden = h.scale, to
    if "wp" in quantized(options):
        e = quantized(options)["hidden"]
        scale, hidden = e.scale, replace(to, zero=-e.zero)
    factor = np.float32(2.0**-ONE_BITS / scale * 2.0**-ONE_BITS)
    return IntegerLstmAttrs(axis, exponent, int(clip), fixed_factor(factor), hidden, to)


def fixed_factor(factor: np.float32) -> tuple[int, int, int, int]:
    """Returns m and the divisor 2ᵏ, with factor = m / 2³¹⁺ᵏ; m has 31 bits, or more above 1.

    A factor below 2⁻³² is 0, as in TFLite.

    Raises:
        ShapeError: if the factor is 2³¹ or more, and m would not fit in an int64.
    """
    if not factor < 2.0**MOST_BITS:
        raise ShapeError(f"quotients of scales must be below 2^{MOST_BITS}, but got {factor:.4g}")
    fraction, exponent = np.frexp(float(factor))
    if exponent < -MOST_BITS:
        return (0, *divisor(0))
    m = round(float(fraction) * 2**31) << max(int(exponent), 0)
    return (m, *divisor(max(-int(exponent), 0)))


def divisor(bits: int) -> tuple[int, int, int]:
    """Returns bits, half of 2ᵇⁱᵗˢ, and what negative numbers count less, for `divide`."""
    return bits, (1 << bits) >> 1, int(bits > 0)


def constants(tensors: Tensors) -> Mapping[str, Array]:
    """Returns the weights and factors of all gates, one below the other.

    Raises:
        ShapeError: if inputs are missing or do not fit together, or a quotient of scales is too
            large.
    """
    gates = names_of(tensors)
    missing = [
        n for gate in gates for n in (f"w{gate}", f"r{gate}", f"b{gate}") if n not in tensors
    ]
    if missing:
        raise ShapeError(f"must have the inputs {', '.join(missing)}, but got none")
    w, r = ([_weights(tensors[kind + gate]) for gate in gates] for kind in "wr")
    biases = [_weights(tensors[f"b{gate}"]) for gate in gates]
    shapes = {a.shape for a in w}, {a.shape for a in r}, {a.shape for a in biases}
    units = len(biases[0])
    projected = _weights(tensors["wp"]) if "wp" in tensors else np.empty((0, units), np.int8)
    out = len(projected) or units
    matrices = w[0].ndim == 2 and len(w[0]) == units and r[0].shape == (units, out)
    if any(len(s) > 1 for s in shapes) or not matrices or projected.shape[1:] != (units,):
        raise ShapeError(
            f"weights of gates must be (O, I), (O, P) and (O,), but got {w[0].shape}, "
            f"{r[0].shape} and {biases[0].shape}, projection {projected.shape}"
        )
    arrays = {}
    for kind, end, x, rows in (("w", "", tensors["x"], w), ("r", "r", tensors["h"], r)):
        matrix = np.concatenate(rows)
        factors = [np.float32(tensors[kind + g].scale) * np.float32(x.scale) / STEP for g in gates]
        by_gate = np.array([fixed_factor(factor) for factor in factors], INT64).T
        arrays[kind] = _exact(matrix, x.dtype)
        arrays[f"b{end}"] = -x.zero * matrix.sum(axis=1, dtype=np.int64)
        arrays[f"m{end}"] = by_gate.repeat(units, axis=1)
    arrays["b"] += np.concatenate(biases)
    return arrays | {"p": _peepholes(tensors, gates, units)} | _projection(tensors, projected)


def _exact(matrix: Array, dtype: np.dtype[Any]) -> Array:
    """Returns a matrix of integers in floats that hold its products with vectors of a dtype."""
    row_sums = abs(matrix.astype(np.int64)).sum(axis=1)
    return matrix.astype(exact_float(largest(dtype) * int(row_sums.max(initial=0))))


def _peepholes(tensors: Tensors, gates: str, units: int) -> Array:
    """Returns the peepholes of all gates, one beside the other, above their factors."""
    peephole_gates = [gate for gate in gates if gate != "g"]
    peepholes = [gate for gate in peephole_gates if f"p{gate}" in tensors]
    if not peepholes:
        return np.empty((5, 0), INT64)
    if peepholes != peephole_gates or any(
        _weights(tensors[f"p{gate}"]).shape != (units,) for gate in peepholes
    ):
        raise ShapeError(
            f"peepholes of {', '.join(peephole_gates)} must be ({units},), but got others"
        )
    p = np.zeros((5, len(gates), units), INT64)
    for k, gate in enumerate(gates):
        if gate in peepholes:
            weights = tensors[f"p{gate}"]
            factor = np.float32(tensors["c"].scale) * np.float32(weights.scale) / STEP
            p[0, k], p[1:, k] = _weights(weights), np.array([fixed_factor(factor)]).T
    return p.reshape(5, -1)


def _projection(tensors: Tensors, matrix: Array) -> dict[str, Array]:
    """Returns the projection, and the products of the zero point with it above its factor."""
    bias = np.zeros((5, len(matrix)), INT64)
    if len(matrix):
        scale, zero = tensors["hidden"].scale, -tensors["hidden"].zero
        factor = (
            np.float32(tensors["wp"].scale) * np.float32(scale) / np.float32(tensors["h"].scale)
        )
        bias[0] = -zero * matrix.sum(axis=1, dtype=np.int64)
        bias[1:] = np.array([fixed_factor(factor)]).T
    return {"wp": _exact(matrix, matrix.dtype), "bp": bias}


def _weights(tensor: QuantizedTensor) -> Array:
    assert tensor.data is not None, "weights of integer rows are constants"
    return tensor.data


def infer(attrs: IntegerLstmAttrs, s: Specs) -> Specs:
    x, w, r = (s[n] for n in "xwr")
    if len(x.shape) != 3 or x.shape[2] != w.shape[1]:
        raise ShapeError(f"x must be (N, T, {w.shape[1]}), but got {x}")
    return {"y": TensorSpec((*x.shape[:2], r.shape[1]), attrs.to.dtype)}


def tables(attrs: IntegerLstmAttrs, s: Specs) -> Mapping[str, Any]:
    """Prepares σ and tanh of all integers of a gate, and tanh of all integers of the cell."""
    q = np.arange(LO, HI + 1, dtype=INT64)
    return {
        "sigmoid": logistic(q, GATE_BITS),
        "tanh": tanh(q, GATE_BITS),
        "cell_tanh": tanh(q, ONE_BITS + attrs.exponent),
    }


def compact_tables(attrs: IntegerLstmAttrs, s: Specs) -> Mapping[str, Any]:
    """Prepares the tables as (3, 2¹⁶) int16."""
    return {"tables": np.stack([*tables(attrs, s).values()]).astype(np.int16)}


def workspace(attrs: IntegerLstmAttrs, s: Specs) -> Specs:
    """Returns the workspace for one step."""
    x, w, r = (s[n] for n in "xwr")
    samples, (wide, width), before = x.shape[1 - attrs.time_axis], w.shape, r.shape[1]
    out, units = s["wp"].shape
    return {
        "rows": TensorSpec((samples, width), w.dtype),
        "products": TensorSpec((samples, wide), w.dtype),
        "state": TensorSpec((samples, before), r.dtype),
        "state_products": TensorSpec((samples, wide), r.dtype),
        "sums": TensorSpec((3, samples, wide), INT64),
        "gates": TensorSpec((samples, wide), INT64),
        "work": TensorSpec((5, samples, units), INT64),
        "hidden": TensorSpec((samples, units if out else 0), s["wp"].dtype),
        "projected": TensorSpec((samples, out), s["wp"].dtype),
        "result": TensorSpec((2, samples, out), INT64),
    }


def forward(
    attrs: IntegerLstmAttrs,
    *,
    x: Array,
    w: Array,
    r: Array,
    b: Array,
    br: Array,
    m: Array,
    mr: Array,
    y: Array,
    rows: Array,
    products: Array,
    state: Array,
    state_products: Array,
    sums: Array,
    **step: Array,
) -> None:
    step["work"][0].fill(0)  # the cell
    z, recurrent, signs = sums
    before = None
    for x_now, y_now in zip(*(by_time(attrs.time_axis, a) for a in (x, y)), strict=True):
        np.copyto(rows, x_now)
        np.matmul(rows, w.T, out=products)
        scaled(products, b, m, z, signs)
        np.clip(z, LO, HI, out=z)
        if before is not None:
            np.copyto(state, before)
            np.matmul(state, r.T, out=state_products)
            scaled(state_products, br, mr, recurrent, signs)
            np.add(z, recurrent, out=z)
            np.clip(z, LO, HI, out=z)
        advance(attrs, z, y_now, **step)
        before = y_now


def scaled(products: Array, b: Array, m: Array, out: Array, signs: Array) -> None:
    """Computes (products + b) m."""
    np.copyto(out, products, casting="unsafe")
    np.add(out, b, out=out)
    multiply(out, m, signs)


def multiply(a: Array, m: Array | tuple[int, int, int, int], signs: Array) -> None:
    """Computes a m[0] / 2³¹⁺ᵏ in place, rounded once for 2³¹ and once for 2ᵏ."""
    np.multiply(a, m[0], out=a)
    np.add(a, 1 << 30, out=a)
    np.right_shift(a, 31, out=a)
    divide(a, m[1], m[2], m[3], signs)


def divide(a: Array, bits: Any, half: Any, less: Any, signs: Array) -> None:
    """Computes a / 2ᵇⁱᵗˢ in place, rounded half away from 0."""
    np.right_shift(a, 63, out=signs)
    np.multiply(signs, less, out=signs)
    np.add(a, half, out=a)
    np.add(a, signs, out=a)
    np.right_shift(a, bits, out=a)


def advance(
    attrs: IntegerLstmAttrs,
    z: Array,
    y: Array,
    *,
    sigmoid: Array,
    tanh: Array,
    cell_tanh: Array,
    p: Array,
    wp: Array,
    bp: Array,
    gates: Array,
    work: Array,
    hidden: Array,
    projected: Array,
    result: Array,
) -> None:
    """Computes the cell and y of a step.

    Args:
        z: the gates before σ and tanh; replaced by their places in the tables.
        work: the cell, which is replaced by the new one; the others are scratch.
    """
    cell, other, modulation, place, signs = work
    units = cell.shape[-1]
    is_coupled = gates.shape[-1] == 3 * units  # the input gate is coupled
    for gate in (FORGET,) if is_coupled else (FORGET, INPUT):
        if p.size:
            add_peephole(part(p, gate, units), cell, part(z, gate, units), other, signs)
    np.subtract(z, LO, out=z)
    np.take(sigmoid, z, out=gates, mode="clip")
    np.copyto(place, part(z, CELL, units))
    np.take(tanh, place, out=modulation, mode="clip")
    forget = part(gates, FORGET, units)
    if is_coupled:
        np.subtract(HI, forget, out=other)
    else:
        np.copyto(other, part(gates, INPUT, units))
    np.multiply(other, modulation, out=other)
    divide(other, *divisor(2 * ONE_BITS + attrs.exponent), signs)
    np.multiply(cell, forget, out=cell)
    divide(cell, *divisor(ONE_BITS), signs)
    np.add(cell, other, out=cell)
    np.clip(cell, LO if attrs.clip == HI else -attrs.clip, attrs.clip, out=cell)
    np.copyto(modulation, part(gates, OUTPUT, units))
    if p.size:
        np.add(part(z, OUTPUT, units), LO, out=place)
        add_peephole(part(p, OUTPUT, units), cell, place, other, signs)
        np.subtract(place, LO, out=place)
        np.take(sigmoid, place, out=modulation, mode="clip")
    np.subtract(cell, LO, out=place)
    np.take(cell_tanh, place, out=other, mode="clip")
    np.multiply(other, modulation, out=other)
    multiply(other, attrs.m, signs)
    limit(other, attrs.hidden)
    if not len(wp):
        np.copyto(y, other, casting="unsafe")
        return
    np.copyto(hidden, other, casting="unsafe")
    np.matmul(hidden, wp.T, out=projected)
    scaled(projected, bp[0], bp[1:], *result)
    limit(result[0], attrs.to)
    np.copyto(y, result[0], casting="unsafe")


def add_peephole(p: Array, cell: Array, z: Array, product: Array, signs: Array) -> None:
    """Adds the products of a cell with the peephole of a gate to the gate."""
    np.multiply(cell, p[0], out=product)
    multiply(product, p[1:], signs)
    np.add(z, product, out=z)
    np.clip(z, LO, HI, out=z)


def limit(a: Array, to: Rounding) -> None:
    """Adds the zero point in place, and limits the integers."""
    np.add(a, to.zero, out=a)
    np.clip(a, to.lo, to.hi, out=a)


def mixes_samples(attrs: IntegerLstmAttrs, s: Specs, batched: Names) -> bool:
    return mixes_along_time(attrs.time_axis, batched)


def flops(attrs: IntegerLstmAttrs, s: Specs) -> int:
    rows = s["y"].size // max(s["y"].shape[-1], 1)
    return 2 * rows * sum(s[name].size for name in ("w", "r", "wp") if name in s)


OP = OpDef(
    "INTEGER_UNIDIRECTIONAL_SEQUENCE_LSTM",
    inputs=INPUTS,
    infer=infer,
    forward=Kernel(
        forward,
        reads=INPUTS,
        writes=("y",),
        workspace=workspace,
        prepare=tables,
        compiled=Compiled(integer.lstm, integer.lstm_fits, integer.lstm_workspace, compact_tables),
    ),
    grads={},
    stops=INPUTS,
    attrs=attrs,
    keeps_activation=True,
    mixes_samples=mixes_samples,
    batch_first=batch_first,
    flops=flops,
    arithmetic=Arithmetic.DENSE,
)
