"""Compiled products with weights that are decoded as they are packed, a panel at a time.

Real numbers of all weights of a layer would not fit into a core's cache. Results have the bits of
those with decoded weights that are packed.
"""

from collections.abc import Callable
from math import prod

from odt.kernels.geometry.block_formats import BlockFormat
from odt.kernels.geometry.decoders import BYTE, IntegerDecoder
from odt.kernels.geometry.quantize import sign_bit
from odt.kernels.native.binding import Calls, bind, one_loop
from odt.kernels.native.convolution import PANEL, epilogue_of
from odt.kernels.native.dense import walk
from odt.kernels.native.float32 import FLOAT, VECTOR
from odt.kernels.native.stored_weights import scales_of_units
from odt.kernels.native.structs import WindowWalk
from odt.kernels.native.window_walk import units_of
from odt.kernels.rows.opdef import (
    PACKED,
    Array,
    Attrs,
    Clamp,
    Compiled,
    ReluMask,
    Specs,
    TensorSpec,
    always,
)

COLUMNS = 192  # of a panel: whole segments, and whole tiles of every instruction set
SEGMENT = 64  # integers of a unit that are decoded at once, at most
UNIT = 62  # `shift` of scales of whole units


def can_pack(attrs: Attrs, w: TensorSpec) -> bool:
    """Whether `packing` supports a weight: whole vectors of units, whole segments of their values.

    Args:
        attrs: its decoder and shape.
        w: spec of the stored weight.
    """
    decoder = attrs.decoder
    if len(attrs.shape) != 2 or attrs.shape[0] % VECTOR or not prod(attrs.shape):
        return False
    if isinstance(decoder, BlockFormat):
        return True
    if not isinstance(decoder, IntegerDecoder) or attrs.shape[1] % SEGMENT or w.dtype.itemsize > 1:
        return False
    q = decoder.quantization
    if decoder.bits < BYTE and q.zero_point.any():
        return False
    if q.blocks:
        inner = prod(q.blocks)
        by_unit = q.blocks[:-1] == (1,) and attrs.shape[1] % inner == 0
        return decoder.bits < BYTE and by_unit and inner % VECTOR == 0 and inner & (inner - 1) == 0
    return q.scale.size == 1 or (q.axis == 0 and q.scale.size == attrs.shape[0])


def packing(
    attrs: Attrs, w: Array, panel: Array, units: slice, columns: slice | None = None
) -> Calls:
    """Returns a call that packs real numbers of a weight, for which `can_pack` holds.

    Args:
        attrs: decoder and shape of the weight.
        w: the stored weight.
        panel: gets the numbers in the layout of src/convolution.c.
        units: the units that are packed, as vectors by the depth.
        columns: values of the depth that are packed, as vectors by the units; None for all, with
            units as vectors.
    """
    decoder, (count, depth) = attrs.decoder, attrs.shape
    stored = w.reshape(count, -1, copy=False)[units]
    first, size = (columns.start, columns.stop - columns.start) if columns else (0, 0)
    scales = zeros = None
    shift, minimum, flip = UNIT, 0, sign_bit(w.dtype)
    if isinstance(decoder, BlockFormat):
        minimum = int(decoder.has_minimum)
    else:
        scales, zeros = scales_of_units(decoder, count, units)
        if blocks := decoder.quantization.blocks:
            shift = prod(blocks).bit_length() - 1
    sizes = len(stored), depth, first, size, shift, decoder.bits, minimum, flip
    return bind("decode_panel", stored, scales, zeros, panel, *sizes)


def _panel_of(depth: int, columns: int) -> TensorSpec:
    """Returns the spec of the panel of a product with sums of `depth` values."""
    return TensorSpec((depth * min(columns, max(PANEL // depth // COLUMNS, 1) * COLUMNS),), FLOAT)


def _products(
    x: Array,
    y: Array,
    panel: Array,
    whole: WindowWalk,
    pack: Callable[[slice], Calls],
    b: Array | None,
    clamp: Clamp | None,
    relu_mask: ReluMask | None,
    addend: Array | None,
) -> Calls:
    """Returns the loop over panels.

    Args:
        x, y: factor and result.
        panel: the panel.
        whole: walk of the whole product.
        pack: returns the call that packs some columns of the result.
        b, clamp, relu_mask, addend: the epilogue.
    """
    calls = []
    count = panel.size // whole.depth
    mask_input, epilogue = epilogue_of(clamp, relu_mask, PACKED, addend)
    for at in range(0, whole.units, count):
        here = slice(at, min(at + count, whole.units))
        bias, mask, to = (a if a is None else a.reshape(-1)[at:] for a in (b, mask_input, y))
        part = units_of(whole, here.stop - at)
        calls.append(pack(here))
        calls.append(bind("correlate", x, None, bias, mask, to, panel, part, *epilogue))
    return one_loop(calls)


def forward(
    attrs: Attrs,
    *,
    x: Array,
    w: Array,
    y: Array,
    panel: Array,
    b: Array | None = None,
    clamp: Clamp | None = None,
    addend: Array | None = None,
) -> Calls:
    """Returns the calls of y = x wᵀ + b for a weight that `can_pack` supports.

    Args:
        attrs: decoder and shape of the weight.
        x, b: float32.
        w: the stored weight.
        y: the result.
        panel: memory for whole vectors of units.
        clamp: limits of y; None for none.
        addend: values that are added to the result; None for none.
    """
    units, depth = attrs.shape
    whole = walk(x.size // depth, depth, units, depth_stride=1, unit_stride=depth)

    def pack(here: slice) -> Calls:
        return packing(attrs, w, panel, here)

    return _products(x, y, panel, whole, pack, b, clamp, None, addend)


def _grad_x(
    attrs: Attrs,
    *,
    dy: Array,
    w: Array,
    dx: Array,
    panel: Array,
    relu_mask: ReluMask | None = None,
    addend: Array | None = None,
) -> Calls:
    units, depth = attrs.shape
    whole = walk(dy.size // units, units, depth, depth_stride=depth, unit_stride=1)
    every = slice(0, units)

    def pack(here: slice) -> Calls:
        return packing(attrs, w, panel, every, here)

    return _products(dy, dx, panel, whole, pack, None, None, relu_mask, addend)


def _fits(attrs: Attrs, s: Specs) -> bool:
    floats = all(spec.dtype == FLOAT and spec.size for name, spec in s.items() if name != "w")
    return floats and can_pack(attrs, s["w"])


def _forward_workspace(attrs: Attrs, s: Specs) -> Specs:
    units, depth = attrs.shape
    return {"panel": _panel_of(depth, units)}


def _back_workspace(attrs: Attrs, s: Specs) -> Specs:
    units, depth = attrs.shape
    return {"panel": _panel_of(units, depth)}


def _back_adds(attrs: Attrs, s: Specs) -> bool:
    """Whether vectors of the depth do not overlap; those of units never do."""
    return bool(attrs.shape[1] % VECTOR == 0)


FORWARD = Compiled(
    forward, _fits, _forward_workspace, takes=frozenset({"clamp"}), takes_addend=always
)
GRAD_X = Compiled(
    _grad_x, _fits, _back_workspace, takes=frozenset({"relu_mask"}), takes_addend=_back_adds
)
