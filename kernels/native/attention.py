"""Compiled kernels of attention to keys of which a mask hides some: see src/attention.c."""

from collections.abc import Callable
from math import prod

from odt.dataclass import dataclass
from odt.kernels.native.binding import bind
from odt.kernels.native.float32 import FLOAT, is_float32
from odt.kernels.native.library import limit
from odt.kernels.rows.opdef import Array, Compiled, Specs, TensorSpec

HIDDEN = -1e9  # values of a mask up to which a key is hidden: its probability is exactly 0
LEAST_BETA = 1e-3  # factor from which this holds, for scores of less than seven digits
MATRICES = 8  # with as many, threads divide the matrices, and the rows of none are split


@dataclass(frozen=True, slots=True)
class AttentionAttrs:
    """Attributes of attention.

    Attributes:
        beta: factor of scores and mask.
        queries: rows of the mask, which are used in turn for the rows of a matrix.
    """

    beta: float
    queries: int


def sizes(s: Specs) -> tuple[int, int, int, int, int]:
    """Returns matrices, rows, keys, values of a key, and values of a row of results."""
    (rows, depth), (keys, width) = s["q"].shape[-2:], s["v"].shape[-2:]
    return prod(s["q"].shape[:-2]), rows, keys, depth, width


def fits(attrs: AttentionAttrs, s: Specs) -> bool:
    """Whether all values are float32, and each kind is at least a vector of the target."""
    _, rows, *widths = sizes(s)
    return is_float32(s) and rows > 0 and min(widths) >= limit("MAX_LANES")


def statistics(s: Specs) -> TensorSpec:
    """Returns the spec of what backward needs to compute the probabilities of a row again."""
    return TensorSpec((*s["q"].shape[:-1], 2), FLOAT)


def _rows() -> int:
    """Rows of a block."""
    return limit("ROW_BLOCK") // 2


def _gapped(depth: int, keys: int) -> int:
    """Floats of transposed keys."""
    return depth * (keys + limit("MAX_LANES"))


def _splits(s: Specs) -> int:
    count, rows, *_ = sizes(s)
    blocks = -(-rows // _rows())
    return 1 if count >= MATRICES else min(limit("PANEL_PARTS"), blocks)


def _workspace(attrs: AttentionAttrs, s: Specs) -> Specs:
    _, _, keys, depth, _ = sizes(s)
    each = _rows() * keys + _gapped(depth, keys)
    return {"scratch": TensorSpec((limit("PANEL_PARTS"), each), FLOAT)}


def _back_workspace(attrs: AttentionAttrs, s: Specs) -> Specs:
    count, _, keys, depth, width = sizes(s)
    each = _rows() * (2 * keys + limit("ROW_BLOCK")) + _gapped(depth + width, keys)
    return {
        "scratch": TensorSpec((limit("PANEL_PARTS"), each), FLOAT),
        "sums": TensorSpec((count * (_splits(s) - 1), keys, depth + width), FLOAT),
    }


def _numbers(attrs: AttentionAttrs, s: Specs) -> tuple[int, ...]:
    count, rows, keys, depth, width = sizes(s)
    return count, rows, attrs.queries, keys, depth, width


def _specs(**arrays: Array) -> Specs:
    return {name: TensorSpec(a.shape, a.dtype) for name, a in arrays.items()}


def _forward(
    attrs: AttentionAttrs,
    *,
    q: Array,
    k: Array,
    v: Array,
    mask: Array,
    y: Array,
    stats: Array,
    scratch: Array,
) -> Callable[[], None]:
    numbers = _numbers(attrs, _specs(q=q, v=v))
    return bind("attention", q, k, v, mask, y, stats, scratch, *numbers, attrs.beta, HIDDEN)


def _backward(
    attrs: AttentionAttrs,
    *,
    q: Array,
    k: Array,
    v: Array,
    mask: Array,
    stats: Array,
    dy: Array,
    dq: Array,
    dk: Array,
    dv: Array,
    sums: Array,
    scratch: Array,
) -> Callable[[], None]:
    s = _specs(q=q, v=v)
    arrays = q, k, v, mask, stats, dy, dq, dk, dv, sums, scratch
    numbers = *_numbers(attrs, s), _splits(s)
    return bind("attention_back", *arrays, *numbers, attrs.beta, HIDDEN)


FORWARD = Compiled(_forward, fits, _workspace)
BACKWARD = Compiled(_backward, fits, _back_workspace)
