"""Compiled kernels of CONV_2D, and the products over windows that TRANSPOSE_CONV shares."""

from collections.abc import Callable, Sequence
from typing import Any

from odt.kernels.geometry.conv_geometry import (
    Axes,
    ConvAttrs,
    Pairs,
    back_geometry,
    geometry,
    groups_of,
)
from odt.kernels.geometry.im2col import PaddedImages
from odt.kernels.native.bf16 import pairs, pays, rounded_workspace, with_bf16
from odt.kernels.native.binding import Calls, bind, in_order, one_loop
from odt.kernels.native.float32 import FLOAT, TILE_WINDOWS, VECTOR, is_float32
from odt.kernels.native.library import kernels_in_use, limit
from odt.kernels.native.structs import WindowWalk
from odt.kernels.native.window_walk import forward_walk, phase_walks, tiled, units_of
from odt.kernels.rows.opdef import (
    PACKED,
    PACKS,
    Array,
    Attrs,
    Clamp,
    Compiled,
    ReluMask,
    Specs,
    TensorSpec,
)

PANEL = 2**18  # values of weights that are packed at once, unless UNITS have more
UNITS = 96  # a multiple of two full tiles of every instruction set
POINTS = 16  # products of a tile of 2×2 results, for each depth and unit: src/winograd.h
LEAST_CHANNELS = 48  # read and written together, for which tiles take less time
LEAST_RESULTS = 64  # the same
MAX_POINTS = 2  # weights at the points, at most, for each value of an image read or written
WIDE = 160  # channels read and written together, with which more weights at the points pay
MAX_WIDE_POINTS = 24  # the same
FEW_POINTS = 2**20  # weights at the points that wide layers may have in any case


def panel_workspace(depth: int, units: int) -> Specs:
    """Returns the workspace for packed weights, for every instruction set.

    If weights are large, those of some units are packed after those of others.
    """
    lanes = limit("MAX_LANES")
    most = max(PANEL // depth // UNITS, 1) * UNITS
    return {"panel": TensorSpec((depth * min(-(-units // lanes) * lanes, most),), FLOAT)}


def packed_weights(depth: int, units: int) -> TensorSpec | None:
    """Returns the spec of all packed weights of a layer; None if its units are few."""
    lanes = limit("MAX_LANES")
    return TensorSpec((depth * -(-units // lanes) * lanes,), FLOAT) if units >= lanes else None


def sums_workspace(units: int, taps: int, depth: int) -> Specs:
    """Returns the workspace for sums with vectors along the units, for every instruction set."""
    lanes = limit("MAX_LANES")
    size = taps * depth * -(-units // lanes) * lanes if depth < lanes else 0
    return {"scratch": TensorSpec((size,), FLOAT)}


def in_tiles(attrs: ConvAttrs, w: TensorSpec, y: TensorSpec) -> bool:
    """Whether y, or dx, is computed in tiles of 2×2 results.

    This depends on neither the number of images nor of threads, because rounding differs. Weights
    at the points are limited for the sake of memory, which all layers of a worker share, and in
    narrow layers for that of batch 1: the MNIST CNN takes 1.12 times as long with tiles.
    """
    units, height, width, depth = w.shape
    _, rows, cols, _ = y.shape
    lanes, results, channels = limit("MAX_LANES"), rows * cols, depth + units
    most = MAX_POINTS * results * channels
    if channels >= WIDE:
        most = max(FEW_POINTS, MAX_WIDE_POINTS * results * channels)
    return bool(
        (kernels_in_use().startswith("avx") or limit("BASE_IN_TILES"))
        and (height, width, *attrs.stride, *attrs.dilation) == (3, 3, 1, 1, 1, 1)
        and depth % lanes == units % lanes == 0
        and channels >= LEAST_CHANNELS
        and results >= LEAST_RESULTS
        and POINTS * depth * units <= most
    )


def tiles_workspace(depth: int, units: int) -> Specs:
    """Returns the workspace of tiles, for every instruction set."""
    lanes, parts = limit("MAX_LANES"), limit("PANEL_PARTS")
    per_part = depth + 2 * POINTS * lanes
    at_once = limit("TILES") * POINTS * (depth + limit("MAX_NR") * lanes)
    return {"tiles": TensorSpec((POINTS * depth * units + parts * per_part + at_once,), FLOAT)}


def epilogue_of(
    clamp: Clamp | None, relu_mask: ReluMask | None, packing: str, addend: Array | None = None
) -> tuple[Array | None, tuple[int, float, float, int]]:
    """Returns the input of the ReLU mask, or the addend, and the last arguments of a call."""
    mask_input, lo, hi = relu_mask or (addend, *(clamp or (0.0, 0.0)))
    mode = {PACKS: limit("PACKS"), PACKED: limit("PACKED")}.get(packing, 0)
    kind = int(clamp is not None) if addend is None else limit("ADDS")
    return mask_input, (kind, float(lo), float(hi), mode)


def adds_to_results(name: str, operands: Sequence[Any]) -> bool:
    """Whether a call has the clamp ADDS, by the names of its kernel and its operands."""
    kinds = {"correlate": -4, "stored_product": -3}  # what `epilogue_of` returns is last
    return name in kinds and bool(operands[kinds[name]] == limit("ADDS"))


def correlate(
    x: Array,
    w: Array,
    y: Array,
    panel: Array | None,
    walk: WindowWalk,
    b: Array | None = None,
    clamp: Clamp | None = None,
    relu_mask: ReluMask | None = None,
    tiles: Array | None = None,
    rounded: Array | None = None,
    packing: str = "",
    addend: Array | None = None,
) -> Callable[[], None]:
    """Returns a call that computes y = windows of x times w, plus b, with an epilogue.

    It is a loop over parts of the units if the panel has no memory for all of them. With workspace
    for tiles, y is computed in tiles, and with `rounded`, x and w are rounded to bfloat16: see
    src/convolution.c and src/bf16.c. See `Compiled` for `packing`.
    """
    mask_input, epilogue = epilogue_of(clamp, relu_mask, packing, addend)
    name, scratch = ("correlate", ()) if rounded is None else ("correlate_bf16", (rounded,))
    lanes = limit("MAX_LANES")
    depth = max(walk.taps_d * walk.taps_h * walk.taps_w * walk.depth, 1)
    if rounded is not None:
        depth = pairs(depth)
    most = walk.units if panel is None else panel.size // depth // lanes * lanes
    if tiles is not None:
        panel, walk, most = tiles, tiled(walk), walk.units
    if most >= walk.units:
        return bind(name, x, w, b, mask_input, y, panel, *scratch, walk, *epilogue)

    def part(first: int) -> Calls:
        filters = w.reshape(-1)[first * walk.unit_stride :]
        bias, mask, results = (
            a if a is None else a.reshape(-1)[first:] for a in (b, mask_input, y)
        )
        windows = units_of(walk, min(most, walk.units - first))
        return bind(name, x, filters, bias, mask, results, panel, *scratch, windows, *epilogue)

    return one_loop(map(part, range(0, walk.units, most)))


def filter_sums(
    dy: Array,
    x: Array,
    dw: Array,
    db: Array | None,
    scratch: Array | None,
    walk: WindowWalk,
    first: int,
    adds: Array | None,
    rounded: Array | None = None,
) -> Calls:
    """Returns a call that computes the gradient of filters, from unit `first` on as many as dw has.

    With `rounded`, dy and x are rounded to bfloat16.
    """
    windows = units_of(walk, len(dw))
    if rounded is not None:
        dy = dy.reshape(-1)[first:]
        return bind("filter_sums_bf16", dy, x, dw, db, rounded, windows, adds)
    return bind("filter_sums", dy.reshape(-1)[first:], x, dw, db, scratch, windows, adds)


def fits(attrs: ConvAttrs, s: Specs) -> bool:
    return is_float32(s)


def forward_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    w = s["w"]
    if in_tiles(attrs, w, s["y"]):
        return tiles_workspace(w.shape[3], w.shape[0])
    return panel_workspace(w.size // w.shape[0], w.shape[0])


def packed(attrs: ConvAttrs, s: Specs) -> TensorSpec | None:
    units = s["w"].shape[0]
    tiles = in_tiles(attrs, s["w"], s["y"])
    return None if tiles else packed_weights(s["w"].size // units, units)


def forward(
    attrs: ConvAttrs,
    *,
    x: Array,
    w: Array,
    y: Array,
    axes: Axes,
    source: PaddedImages,
    panel: Array | None = None,
    **kwargs: Any,
) -> Callable[[], None]:
    walk = forward_walk(x, w, y, axes)
    return correlate(x, w, y, panel, walk, **kwargs)


def back_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    """Returns the workspace for packed weights.

    They are packed if windows have several taps and dx many pixels, or if its channels do not fill
    a vector.
    """
    units, height, width, channels = s["w"].shape
    if in_tiles(attrs, s["w"], s["dx"]):
        return tiles_workspace(units, channels)
    many = height * width > 1 and s["dx"].size // channels >= TILE_WINDOWS
    packed = many or channels < VECTOR
    return panel_workspace(s["w"].size // channels, channels) if packed else {}


def grad_x(
    attrs: ConvAttrs,
    *,
    dy: Array,
    w: Array,
    dx: Array,
    axes: Axes,
    source: PaddedImages,
    pairs: Pairs,
    panel: Array | None = None,
    **kwargs: Any,
) -> Callable[[], None]:
    walks = phase_walks(dy, w, dx, axes, source, pairs)
    return in_order([correlate(dy, w, dx, panel, walk, **kwargs) for walk in walks])


def filter_workspace(attrs: ConvAttrs, s: Specs) -> Specs:
    units, height, width, depth = s["w"].shape
    if in_tiles(attrs, s["w"], s["dy"]):
        lanes, parts = limit("MAX_LANES"), limit("PANEL_PARTS")
        at_once = 4 * (limit("FILTER_TILES") * (depth + units) + 2 * parts * lanes)
        size = POINTS * depth * units + depth + units
        return {"tiles": TensorSpec((size + at_once,), FLOAT)}
    return sums_workspace(units, height * width, depth)


def grad_w(
    attrs: ConvAttrs,
    *,
    dy: Array,
    x: Array,
    dw: Array,
    axes: Axes,
    source: PaddedImages,
    scratch: Array | None = None,
    tiles: Array | None = None,
    db: Array | None = None,
    first: int = 0,
    adds: Array | None = None,
    rounded: Array | None = None,
) -> Callable[[], None]:
    walk = forward_walk(x, dw, dy, axes)
    if tiles is not None:
        scratch, walk = tiles, tiled(walk)
    return filter_sums(dy, x, dw, db, scratch, walk, first, adds, rounded)


def rounds(result: str) -> Callable[[ConvAttrs, Specs], bool]:
    """Makes the test whether rounding the factors of a product takes less time than it saves.

    Tiles of 2×2 results save about as much, without rounding.

    Args:
        result: y, dx or, for the gradient by w, dy.
    """

    def rounds(attrs: ConvAttrs, s: Specs) -> bool:
        units, *_, channels = s["w"].shape
        depth, columns = (units, channels) if result == "dx" else (channels, units)
        sizes = s[result].size // columns, s["w"].size // units // channels * depth, columns
        if not is_float32(s) or groups_of(s) > 1:
            return False
        return pays(*sizes) and not in_tiles(attrs, s["w"], s[result])

    return rounds


def rounded_filter(attrs: Attrs, s: Specs) -> Specs:
    return rounded_workspace()


def rounded_forward(attrs: ConvAttrs, s: Specs) -> Specs:
    units, depth = s["w"].shape[0], s["w"].size // s["w"].shape[0]
    return {**panel_workspace(pairs(depth), units), **rounded_workspace()}


def rounded_packed(attrs: ConvAttrs, s: Specs) -> TensorSpec | None:
    units = s["w"].shape[0]
    return packed_weights(pairs(s["w"].size // units), units)


def rounded_back(attrs: ConvAttrs, s: Specs) -> Specs:
    depth = s["w"].size // s["w"].shape[3]
    return {**panel_workspace(pairs(depth), s["w"].shape[3]), **rounded_workspace()}


FORWARD = with_bf16(
    Compiled(forward, fits, forward_workspace, geometry, takes=frozenset({"clamp"}), packed=packed),
    rounds("y"),
    rounded_forward,
    rounded_packed,
)
GRAD_X = with_bf16(
    Compiled(grad_x, fits, back_workspace, back_geometry, takes=frozenset({"relu_mask"})),
    rounds("dx"),
    rounded_back,
)
GRAD_W = with_bf16(
    Compiled(
        grad_w,
        fits,
        filter_workspace,
        geometry,
        takes=frozenset({"bias_gradient"}),
        in_blocks=True,
        in_sums=True,
    ),
    rounds("dy"),
    rounded_filter,
)
