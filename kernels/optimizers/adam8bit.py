"""Adam with 8-bit state, by block-wise dynamic quantization of both moments.

The update is Adam's. Between steps, each moment is stored in blocks of BLOCK values: one float32
for the largest magnitude of the block, and one byte for each value. The byte is the index of the
entry in a table that is nearest to the value divided by that magnitude. The tables hold 0, 1 and
10^(i − 6) times the midpoints of equal parts of [0.1, 1], i = 0 … 6: 2^i parts with both signs for
the first moment, 2^(i + 1) parts for the second. Parameters of fewer than LEAST values keep float32
state.

Source: Dettmers et al., 8-bit Optimizers via Block-wise Quantization, 2022; sizes of blocks and of
exceptions as in bitsandbytes.
"""

from functools import cache
from typing import Any

import numpy as np

from odt.kernels.optimizers.adam import MOMENTS, MomentAttrs, step_size, update_tile
from odt.kernels.rows.opdef import TILE, Array, Specs, TensorSpec
from odt.kernels.rows.updatedef import WEIGHT_DECAY, UpdateRule

BLOCK = 256
LEAST = 4096
PIECE = 4096  # values that are looked up at once, with 8 bytes for each
SIGNED, UNSIGNED = True, False


def slots(attrs: MomentAttrs) -> tuple[str, ...]:
    return ("m", "v", "m_scale", "v_scale")


def slot_specs(attrs: MomentAttrs, p: TensorSpec) -> Specs:
    if p.size < LEAST:
        return {"m": p, "v": p}
    codes = TensorSpec(p.shape, np.dtype(np.uint8))
    scales = TensorSpec((-(-p.size // BLOCK),), p.dtype)
    return {"m": codes, "v": codes, "m_scale": scales, "v_scale": scales}


@cache
def table(signed: bool, dtype: np.dtype[Any]) -> Array:
    """Returns the 256 values of a code, ascending."""
    values = [0.0, 1.0]
    for i in range(7):
        parts = 2**i if signed else 2 ** (i + 1)
        edges = np.linspace(0.1, 1.0, parts + 1)
        magnitudes = 10.0 ** (i - 6) * (edges[1:] + edges[:-1]) / 2
        values += [*magnitudes, *(-magnitudes if signed else ())]
    return np.sort(np.array(values)).astype(dtype)


@cache
def borders(signed: bool, dtype: np.dtype[Any]) -> Array:
    """Returns the midpoints between the values of a code, and infinity."""
    values = table(signed, dtype)
    return np.append((values[1:] + values[:-1]) / 2, dtype.type(np.inf))


@cache
def first_codes(signed: bool) -> Array:
    """Returns the code of the least number with each upper half of a float32.

    Among the numbers with the same upper half there is at most one border.
    """
    numbers = np.arange(2**16, dtype=np.uint32) << 16
    negative = numbers >> 31
    least = (numbers + 0xFFFF * negative).view(np.float32)
    return np.searchsorted(borders(signed, least.dtype)[:-1], least).astype(np.uint8)


def nearest(x: Array, signed: bool, codes: Array) -> None:
    """Computes the codes of values from -1 to 1, in a tenth of np.searchsorted's time."""
    upper = x.astype(np.float32, copy=False).view(np.uint32) >> 16
    np.take(first_codes(signed), upper, out=codes, mode="clip")
    above = x > np.take(borders(signed, x.dtype), codes)
    np.add(codes, above, out=codes, casting="unsafe")


def dequantize(codes: Array, scales: Array, signed: bool, out: Array) -> None:
    """Computes the values of codes; `out` has whole blocks, the last filled with zeros."""
    values = table(signed, out.dtype)
    out[codes.size :] = 0
    for at in range(0, codes.size, PIECE):
        piece = codes[at : at + PIECE]
        np.take(values, piece, out=out[at : at + piece.size], mode="clip")
    by_block = out.reshape(-1, BLOCK)
    np.multiply(by_block, scales[:, None], out=by_block)


def quantize(x: Array, codes: Array, scales: Array, signed: bool, work: Array) -> None:
    """Computes codes and scales of values in whole blocks; destroys x."""
    by_block = x.reshape(-1, BLOCK)
    np.abs(x, out=work)
    np.maximum.reduce(work.reshape(-1, BLOCK), axis=1, out=scales)
    np.divide(by_block, np.where(scales, scales, 1)[:, None], out=by_block)
    for at in range(0, codes.size, PIECE):
        piece = codes[at : at + PIECE]
        nearest(x[at : at + piece.size], signed, piece)


def run(
    attrs: MomentAttrs,
    learning_rate: float,
    step: int,
    *,
    p: Array,
    g: Array,
    work: Array,
    m: Array,
    v: Array,
    m_scale: Array | None = None,
    v_scale: Array | None = None,
) -> None:
    p, g, m, v = (a.reshape(-1, copy=False) for a in (p, g, m, v))
    alpha = step_size(attrs, learning_rate, step)
    for at in range(0, p.size, TILE):
        tile = slice(at, at + TILE)
        pt, gt = p[tile], work[0, : p[tile].size]
        np.multiply(pt, attrs.weight_decay, out=gt)
        np.add(gt, g[tile], out=gt)
        if m_scale is None or v_scale is None:
            update_tile(attrs, alpha, pt, gt, m[tile], v[tile], work[1, : pt.size])
            continue
        blocks = slice(at // BLOCK, at // BLOCK + TILE // BLOCK)
        mt, vt, wt = work[1:4, : m_scale[blocks].size * BLOCK]
        dequantize(m[tile], m_scale[blocks], SIGNED, mt)
        dequantize(v[tile], v_scale[blocks], UNSIGNED, vt)
        update_tile(attrs, alpha, pt, gt, mt[: pt.size], vt[: pt.size], wt[: pt.size])
        quantize(mt, m[tile], m_scale[blocks], SIGNED, wt)
        quantize(vt, v[tile], v_scale[blocks], UNSIGNED, wt)


RULE = UpdateRule(
    "adam8bit",
    MomentAttrs,
    slots,
    run,
    work=4,
    hyper_parameters=(*MOMENTS, WEIGHT_DECAY),
    place=7,
    class_name="Adam8bit",
    slot_specs=slot_specs,
    whole=True,
)
