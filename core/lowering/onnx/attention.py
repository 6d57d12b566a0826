"""Scaled dot-product attention and rotary embeddings, composed of products and softmax."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from odt.core.lowering.onnx.arithmetic import number, scaled
from odt.core.lowering.onnx.builder import Use
from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.rows.opdef import Array

MASKED = 1e30  # a score minus this has the weight 0
FLOAT_PRECISION = 1  # TensorProto.DataType
RAW, WEIGHTS = 0, 3  # values of qk_matmul_output_mode


@dataclass(frozen=True, slots=True)
class Mask:
    """Which keys a query may attend to.

    Attributes:
        added: tensor that is added to the scores, if any.
        allowed: truth values that are data, if any.
        known: constant truth values; None if all are allowed.
    """

    added: int | None
    allowed: int | None
    known: Array | None


def masked(dtype: np.dtype[Any]) -> float:
    """Returns a number that makes the weight of a score 0 if it is added to the score."""
    return -min(MASKED, float(np.finfo(dtype).max) / 2)


def attention(u: Use) -> list[int]:
    """Returns Y, the keys and values with past ones, and scores or weights where they are read."""
    is_flat = u.rank(0) == 3
    if u.rank(0) not in (3, 4) or u.rank(1) != u.rank(0) or u.rank(2) != u.rank(0):
        raise ShapeError(f"Q, K and V must have three or four axes, but got {u.shape(0)}")
    if is_flat:
        heads, groups = (int(u.attr(f"{n}_num_heads", 0)) for n in ("q", "kv"))
    else:
        heads, groups = u.shape(0)[1], u.shape(1)[1]
    q, k, v = (_by_head(u, i, n) for i, n in enumerate((heads, groups, groups)))
    if u.attr("softmax_precision", FLOAT_PRECISION) != FLOAT_PRECISION:
        raise ShapeError(f"softmax_precision must be 1, but got {u.attr('softmax_precision')}")
    if groups < 1 or heads % groups or u.has(4) != u.has(5):
        raise ShapeError(
            f"q_num_heads must be a multiple of kv_num_heads, and past keys and values come "
            f"together, but got {heads}, {groups}"
        )
    past = u.shape(4)[2] if u.has(4) else 0
    if past:
        k, v = (u.b.add("CONCATENATION", (u.input(i), x), axis=2) for i, x in ((4, k), (5, v)))
    batch, _, queries, width = u.b.shape(q)
    keys, depth = u.b.shape(v)[2:]
    # The heads of a group share keys and values, so that their queries are rows of one product.
    rows = heads // groups * queries
    q = u.b.reshape(q, (batch, groups, rows, width))
    scale = float(u.attr("scale", 0.0)) or 1 / math.sqrt(width)
    scores = scaled(u, u.b.add("BATCH_MATMUL", (q, k), adj_y=True), scale)
    raw = u.b.reshape(scores, (batch, heads, queries, keys))
    scores = _capped(u, raw)
    weights = _weights(u, scores, _mask(u, past, queries, keys))
    y = u.b.reshape(weights, (batch, groups, rows, keys))
    y = u.b.reshape(u.b.add("BATCH_MATMUL", (y, v)), (batch, heads, queries, depth))
    if is_flat:
        y = u.b.reshape(u.b.transpose(y, (0, 2, 1, 3)), (batch, queries, heads * depth))
    mode = int(u.attr("qk_matmul_output_mode", RAW))
    if u.is_read(3) and mode not in (RAW, WEIGHTS):
        raise ShapeError(f"qk_matmul_output_mode must be {RAW} or {WEIGHTS}, but got {mode}")
    return [y, k, v, raw if mode == RAW else weights]


def _capped(u: Use, scores: int) -> int:
    """Returns scores between −c and c: c tanh(score / c), where c is `softcap`; 0 for no limit."""
    softcap = float(u.attr("softcap", 0.0))
    if not softcap:
        return scores
    return scaled(u, u.b.add("TANH", (scaled(u, scores, 1 / softcap),)), softcap)


def _by_head(u: Use, k: int, heads: int) -> int:
    """Returns queries, keys or values (N, heads, S, D)."""
    shape = u.shape(k)
    if len(shape) == 4:
        return u.input(k)
    if heads < 1 or shape[2] % heads:
        raise ShapeError(f"{shape} must have a multiple of {heads} heads, but has not")
    parts = (shape[0], shape[1], heads, shape[2] // heads)
    return u.b.transpose(u.b.reshape(u.input(k), parts), (0, 2, 1, 3))


def _mask(u: Use, past: int, queries: int, keys: int) -> Mask:
    """Returns the mask of input 3 together with that of the causal order.

    Real numbers that hide a key are −∞ and the lowest one, as in ONNX Runtime.
    """
    known = None
    if u.attr("is_causal", 0):
        known = np.arange(keys) <= np.arange(queries)[:, None] + past
    if not u.has(3):
        return Mask(None, None, known)
    x, shape = u.input(3), u.shape(3)
    if not 2 <= len(shape) <= 4 or shape[-1] > keys:
        raise ShapeError(f"attn_mask must fit {queries} queries and {keys} keys, but got {shape}")
    rest = (*shape[:-1], keys - shape[-1])  # of the keys beyond the mask, which are hidden
    value, dtype = u.b.value(x), u.dtype(3)
    if dtype.kind not in "bf":
        raise ShapeError(f"attn_mask must be truth values or floats, but got {dtype}")
    lowest = None if dtype.kind == "b" else float(np.finfo(dtype).min)
    if value is not None:
        is_allowed = value if lowest is None else value > lowest
        if lowest is not None and is_allowed.all() and not rest[-1]:
            return Mask(x, None, known)
        is_allowed = np.concatenate((is_allowed, np.zeros(rest, bool)), axis=-1)
        known = is_allowed if known is None else is_allowed & known
        if lowest is None:
            return Mask(None, None, known)
        added = np.concatenate((np.where(value > lowest, value, 0), np.zeros(rest)), axis=-1)
        return Mask(u.b.constant(added, dtype) if added.any() else None, None, known)
    allowed = x if lowest is None else u.b.add("GREATER", (x, number(u, x, lowest)))
    if rest[-1]:
        hidden = u.b.constant(np.zeros(rest), bool)
        allowed = u.b.add("CONCATENATION", (allowed, hidden), axis=len(shape) - 1)
        zeros = u.b.constant(np.zeros(rest), dtype)
        x = u.b.add("CONCATENATION", (x, zeros), axis=len(shape) - 1)
    return Mask(None if lowest is None else x, allowed, known)


def _weights(u: Use, scores: int, mask: Mask) -> int:
    """Returns the softmax of scores; the weights of a query that may attend to nothing are 0."""
    dtype = u.b.spec(scores).dtype
    if mask.added is not None:
        scores = u.b.add("ADD", (scores, mask.added))
    if mask.known is not None and not mask.known.all():
        scores = u.b.add(
            "ADD", (scores, u.b.constant(np.where(mask.known, 0, masked(dtype)), dtype))
        )
    if mask.allowed is not None:
        scores = u.b.add("SELECT_V2", (mask.allowed, scores, number(u, scores, masked(dtype))))
    weights = u.b.add("SOFTMAX", (scores,), beta=1.0)
    # Where all keys are hidden, softmax gives weights to some of them.
    if mask.known is not None and (mask.allowed is not None or not mask.known.any(-1).all()):
        weights = u.b.add("MUL", (weights, u.b.constant(mask.known, dtype)))
    if mask.allowed is not None:
        weights = u.b.add("MUL", (weights, u.b.add("CAST", (mask.allowed,), dtype)))
    return weights


def rotary_embedding(u: Use) -> int:
    """Turns pairs of values by angles that depend on the position."""
    shape = u.shape(0)
    heads = int(u.attr("num_heads", 0))
    if len(shape) == 3 and (heads < 1 or shape[2] % heads):
        raise ShapeError(f"num_heads must divide {shape}, but got {heads}")
    if len(shape) not in (3, 4):
        raise ShapeError(f"X must have three or four axes, but got {shape}")
    dims = (*shape[:2], heads, shape[2] // heads) if len(shape) == 3 else shape
    x = u.b.reshape(u.input(0), dims)
    width = int(u.attr("rotary_embedding_dim", 0)) or dims[3]  # values of a head that turn
    if width % 2 or width > dims[3]:
        raise ShapeError(f"rotary_embedding_dim must be even and fit {shape}, but got {width}")
    half, rest = width // 2, dims[3] - width
    cos, sin = (_angles(u, k, half, heads_last=bool(heads) and len(shape) == 3) for k in (1, 2))
    x, *others = _parts(u, x, (width, rest))
    is_interleaved = bool(u.attr("interleaved", 0))
    if is_interleaved:
        pairs = u.b.reshape(x, (*dims[:3], half, 2))
        a, b = (u.b.reshape(i, (*dims[:3], half)) for i in _parts(u, pairs, (1, 1)))
    else:
        a, b = _parts(u, x, (half, half))
    first = u.b.add("SUB", (u.b.add("MUL", (a, cos)), u.b.add("MUL", (b, sin))))
    second = u.b.add("ADD", (u.b.add("MUL", (a, sin)), u.b.add("MUL", (b, cos))))
    if is_interleaved:
        columns = [u.b.reshape(i, (*dims[:3], half, 1)) for i in (first, second)]
        y = u.b.reshape(u.b.add("CONCATENATION", columns, axis=4), (*dims[:3], width))
    else:
        y = u.b.add("CONCATENATION", (first, second), axis=3)
    if others:
        y = u.b.add("CONCATENATION", (y, *others), axis=3)
    return u.b.reshape(y, shape)


def _angles(u: Use, k: int, half: int, *, heads_last: bool) -> int:
    """Returns cosines or sines, input k, of `half` angles for each step.

    Their shape broadcasts to (N, T, heads, half) with `heads_last`, else to (N, heads, T, half).
    """
    table = u.input(k)
    if u.has(3):
        table = u.b.add("GATHER", (table, u.input(3)), axis=0)
    if len(u.b.shape(table)) != 3:
        raise ShapeError(f"angles must be those of steps of samples, but got {u.b.shape(table)}")
    n, steps, width = u.b.shape(table)
    if width < half:
        raise ShapeError(f"angles must be those of {half} pairs, but got {u.shape(k)}")
    table = _parts(u, table, (half, width - half))[0]
    return u.b.reshape(table, (n, steps, 1, half) if heads_last else (n, 1, steps, half))


def _parts(u: Use, x: int, sizes: tuple[int, int]) -> list[int]:
    """Splits the last axis; a part of no values is left out."""
    if not sizes[1]:
        return [x]
    axis = u.b.constant(len(u.b.shape(x)) - 1)
    inputs = (x, u.b.constant(sizes), axis)
    return u.b.add_several("SPLIT_V", inputs, 2, u.b.spec(x).dtype, num_splits=2)


KINDS: Mapping[str, Callable[[Use], int | Sequence[int]]] = {
    "Attention": attention,
    "RotaryEmbedding": rotary_embedding,
}
