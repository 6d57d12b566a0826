"""Compiled calls that read weights as files store them: integers, packed ones, and blocks."""

import numpy as np

from odt.kernels.geometry.block_formats import BlockFormat
from odt.kernels.geometry.decoders import BYTE, Decoder, IntegerDecoder, RoundingDecoder
from odt.kernels.geometry.quantize import sign_bit
from odt.kernels.native.binding import Calls, bind
from odt.kernels.native.updates import bind_round_units
from odt.kernels.rows.opdef import Array, Attrs, Specs

PACKED_ROWS = 24  # with as many, a dense layer is faster with unpacked weights


def decode(attrs: Attrs, *, x: Array, y: Array) -> Calls:
    """Returns a call that computes the real numbers of a weight; attrs has its decoder."""
    decoder: Decoder = attrs.decoder
    if isinstance(decoder, BlockFormat):
        width = y.shape[-1]
        return _decode_blocks(decoder, x, y, None, y.size // width, width)
    if isinstance(decoder, RoundingDecoder):
        return bind_round_units(x, y, decoder.quantization)
    assert isinstance(decoder, IntegerDecoder), "decode_fits knows the decoder"
    first = decoder.quantization
    outer, units, inner = first.units_of(y.shape)
    scale, zero = _scales(decoder)
    bits, flip = _form(decoder, x)
    if bits < BYTE:
        return bind("unpack_units", x, y, scale, units, inner, bits)
    return bind("integer_dequantize_units", x, y, scale, zero, outer, units, inner, flip)


def decode_units(decoder: Decoder, x: Array, y: Array, first: int, units: int) -> Calls:
    """Returns a call that computes the real numbers of some units, for `can_decode_units`.

    Args:
        decoder: decoder of the weight.
        x: the stored weight.
        y: gets the real numbers, (count, depth).
        first: number of the first unit.
        units: number of all units.
    """
    count, depth = y.shape
    stored = x.reshape(units, -1, copy=False)[first : first + count]
    if isinstance(decoder, BlockFormat):
        return _decode_blocks(decoder, stored, y, None, count, depth)
    assert isinstance(decoder, IntegerDecoder), "can_decode_units knows the decoder"
    scale, zero = scales_of_units(decoder, units, slice(first, first + count))
    flip = sign_bit(x.dtype)
    return bind("integer_dequantize_units", stored, y, scale, zero, 1, count, depth, flip)


def can_decode_units(decoder: Decoder, shape: tuple[int, ...]) -> bool:
    """Whether `decode_units` supports a weight: blocks, or a byte for each integer of a unit."""
    if isinstance(decoder, BlockFormat):
        return True
    if not isinstance(decoder, IntegerDecoder) or decoder.bits < BYTE:
        return False
    q = decoder.quantization
    return q.scale.size == 1 or (q.axis == 0 and q.scale.size == shape[0] and not q.blocks)


def scales_of_units(decoder: IntegerDecoder, units: int, part: slice) -> tuple[Array, Array]:
    """Returns scales and zero points of some of a weight's units: float32 (units, blocks)."""
    q = decoder.quantization
    size = units if q.scale.size == 1 else q.scale.size
    scale, zero = (
        np.ascontiguousarray(np.broadcast_to(a, size).reshape(units, -1)[part], np.float32)
        for a in (q.scale, q.zero_point)
    )
    return scale, zero


def _scales(decoder: IntegerDecoder) -> tuple[Array, Array]:
    """Returns scales and zero points as float32."""
    first = decoder.quantization
    return np.ascontiguousarray(first.scale, np.float32), first.zero_point.astype(np.float32)


def _form(decoder: IntegerDecoder, x: Array) -> tuple[int, int]:
    """Returns the bits of an integer, and the sign bit of bytes that have one."""
    return decoder.bits, sign_bit(x.dtype)


def decode_fits(attrs: Attrs, s: Specs) -> bool:
    """Whether `decode` supports a weight: units of packed integers begin at whole bytes."""
    decoder: Decoder = attrs.decoder
    if s["y"].dtype != np.float32 or not s["y"].size:
        return False
    if isinstance(decoder, IntegerDecoder):
        return decoder.fits(s["y"].shape)
    if isinstance(decoder, RoundingDecoder):
        return decoder.quantization.dtype.itemsize <= 2
    return isinstance(decoder, BlockFormat)


def decode_rows(attrs: Attrs, *, x: Array, at: Array, y: Array) -> Calls:
    """Returns a call that computes rows of a table; attrs has its decoder and shape."""
    decoder: Decoder = attrs.decoder
    width = y.size // at.size
    if isinstance(decoder, BlockFormat):
        return _decode_blocks(decoder, x, y, at, at.size, width)
    assert isinstance(decoder, IntegerDecoder), "decode_rows_fits knows the decoder"
    scale, zero = _scales(decoder)
    scales = scale.size // attrs.shape[0] if scale.size > 1 else 0
    return bind("decode_rows", x, y, at, scale, zero, at.size, width, scales, *_form(decoder, x))


def decode_rows_fits(attrs: Attrs, s: Specs) -> bool:
    """Whether `decode_rows` supports a table."""
    fits = isinstance(attrs.decoder, IntegerDecoder | BlockFormat)
    return fits and s["y"].dtype == np.float32 and s["y"].size > 0


def _decode_blocks(
    decoder: BlockFormat, x: Array, y: Array, at: Array | None, rows: int, width: int
) -> Calls:
    form = width // decoder.values, decoder.bits, int(decoder.has_minimum)
    return bind("decode_blocks", x, y, at, rows, *form)


def packed_dense(
    attrs: Attrs, *, x: Array, w: Array, y: Array, planes: Array, b: Array | None = None
) -> Calls:
    """Returns a call of a dense layer whose weights are signed integers."""
    first, bits = attrs.decoder.quantization, attrs.decoder.bits
    units, depth = attrs.shape
    _, _, inner = first.units_of(attrs.shape)
    scale = np.ascontiguousarray(first.scale, np.float32)
    sizes = x.size // depth, depth, units, min(inner, depth), bits
    if first.scale.size == 1:
        scale = np.repeat(scale, units)
    return bind("packed_dense", x, w, scale, b, y, planes, *sizes)


def packed_dense_fits(attrs: Attrs, s: Specs) -> bool:
    """Whether weights are signed, rows few, and units and blocks begin at whole bytes."""
    decoder = attrs.decoder
    signed = np.int8 if isinstance(decoder, IntegerDecoder) and decoder.bits == BYTE else np.uint8
    if not isinstance(decoder, IntegerDecoder) or s["w"].dtype != signed:
        return False
    depth = attrs.shape[1]
    outer, _, inner = decoder.quantization.units_of(attrs.shape)
    count = BYTE // decoder.bits  # integers of a byte
    whole = outer == 1 and not (inner % count or depth % count)
    zeros = decoder.quantization.zero_point.any()
    few = s["x"].size < PACKED_ROWS * depth
    return whole and not zeros and few and s["x"].dtype == np.float32
