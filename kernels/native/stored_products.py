"""Compiled products with weights that are decoded a panel at a time, each by one thread.

Results have the bits of those with decoded weights that are packed.
"""

from math import prod

from odt.kernels.geometry.block_formats import BlockFormat
from odt.kernels.geometry.decoders import BYTE, IntegerDecoder
from odt.kernels.geometry.quantize import sign_bit
from odt.kernels.native.binding import Calls, bind
from odt.kernels.native.convolution import PANEL, epilogue_of
from odt.kernels.native.dense import walk
from odt.kernels.native.float32 import FLOAT, VECTOR
from odt.kernels.native.stored_weights import scales_of_units
from odt.kernels.native.structs import WindowWalk
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
EVERY = slice(None)


def can_pack(attrs: Attrs, w: TensorSpec) -> bool:
    """Whether `product` supports a weight: whole vectors of units, whole segments of their values.

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


def product(
    attrs: Attrs,
    x: Array,
    w: Array,
    y: Array,
    panel: Array,
    walk: WindowWalk,
    *,
    of_depth: bool,
    units: slice = EVERY,
    b: Array | None = None,
    clamp: Clamp | None = None,
    relu_mask: ReluMask | None = None,
    addend: Array | None = None,
) -> Calls:
    """Returns a call that computes y from x and a weight, for which `can_pack` holds.

    Args:
        attrs: decoder and shape of the weight.
        x, y: factor and result.
        w: the stored weight.
        panel: memory for real numbers of the weight.
        walk: the rows of x; its units are the columns of y, its depth is that of the sums.
        of_depth: whether the columns of y are the depth of the weight; else they are its units.
        units: the units of the weight, if not all.
        b, clamp, relu_mask, addend: the epilogue.
    """
    decoder, (count, _) = attrs.decoder, attrs.shape
    stored = w.reshape(count, -1, copy=False)[units]
    scales = zeros = None
    step = SEGMENT if of_depth else VECTOR
    shift, minimum, flip = UNIT, 0, sign_bit(w.dtype)
    if isinstance(decoder, BlockFormat):
        minimum = int(decoder.has_minimum)
        step = min(step, decoder.values)
    else:
        scales, zeros = scales_of_units(decoder, count, units)
        if blocks := decoder.quantization.blocks:
            shift = prod(blocks).bit_length() - 1
    mask_input, (*epilogue, _) = epilogue_of(clamp, relu_mask, PACKED, addend)
    form = panel.size // walk.depth, step, int(of_depth), shift, decoder.bits, minimum, flip
    operands = x, stored, scales, zeros, b, mask_input, y, panel, *form, walk, *epilogue
    return bind("stored_product", *operands)


def _panel_of(depth: int, columns: int) -> TensorSpec:
    """Returns the spec of the panel of a product with sums of `depth` values."""
    return TensorSpec((depth * min(columns, max(PANEL // depth // COLUMNS, 1) * COLUMNS),), FLOAT)


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
    """Returns the call of y = x wᵀ + b for a weight that `can_pack` supports.

    Args:
        attrs: decoder and shape of the weight.
        x, b: float32.
        w: the stored weight.
        y: the result.
        panel: memory for real numbers of w.
        clamp: limits of y; None for none.
        addend: values that are added to the result; None for none.
    """
    units, depth = attrs.shape
    rows = walk(x.size // depth, depth, units, depth_stride=1, unit_stride=depth)
    return product(attrs, x, w, y, panel, rows, of_depth=False, b=b, clamp=clamp, addend=addend)


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
    rows = walk(dy.size // units, units, depth, depth_stride=depth, unit_stride=1)
    return product(attrs, dy, w, dx, panel, rows, of_depth=True, relu_mask=relu_mask, addend=addend)


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
