"""Compiled kernel of a dense layer and the cross-entropy of its logits, in chunks of rows."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from odt.kernels.native import dense, stored_products
from odt.kernels.native.binding import bind, in_order
from odt.kernels.native.convolution import PANEL, UNITS, correlate, panel_workspace
from odt.kernels.native.elementwise import COLUMN_SUMS, call
from odt.kernels.native.float32 import FLOAT, is_float32
from odt.kernels.native.stored_products import can_pack
from odt.kernels.native.stored_weights import can_decode_units, decode_units
from odt.kernels.native.window_walk import units_of
from odt.kernels.rows.opdef import Array, Compiled, Specs, TensorSpec

BLOCK = 2**20  # values of weights that are decoded at a time, unless UNITS have more
ALWAYS = np.ones(1, np.int64)  # whether the gradient of a chunk is added to those before
INFINITY = float("inf")


def logits(attrs: Any, s: Specs) -> TensorSpec:
    """Returns the spec of the logits of a chunk."""
    units, depth = attrs.shape
    return TensorSpec((min(attrs.rows, s["x"].size // depth), units), s["x"].dtype)


def block_units(attrs: Any, w: TensorSpec) -> int:
    """Returns the units whose weights are decoded at a time: fewer if they are packed, too."""
    units, depth = attrs.shape
    most = min(BLOCK, PANEL) if can_pack(attrs, w) else BLOCK
    return int(min(units, max(most // depth // UNITS, 1) * UNITS))


def scales(s: Specs) -> Specs:
    """Returns the workspace for scales of rows; empty if each row has one, or all have the same."""
    rows, runs = s["t"].size, s["scale"].size
    return {} if runs in (1, rows) else {"by_row": TensorSpec((rows,), s["scale"].dtype)}


def fits(attrs: Any, s: Specs) -> bool:
    others = ("t", "best") if attrs.decoder is None else ("t", "best", "w")
    floats = {name: spec for name, spec in s.items() if name not in others}
    decodes = attrs.decoder is None or can_decode_units(attrs.decoder, attrs.shape)
    return is_float32(floats) and decodes and s["x"].size > 0 and not attrs.loss.label_smoothing


def workspace(attrs: Any, s: Specs) -> Specs:
    y, w = logits(attrs, s), TensorSpec(attrs.shape, FLOAT)
    chunk = {"x": TensorSpec((y.shape[0], w.shape[1]), FLOAT), "w": w, "y": y}
    chunks = -(-s["t"].size // attrs.rows)
    specs = {"logits": y, "sums": TensorSpec((chunks,), FLOAT), **scales(s)}
    if attrs.decoder is None:
        specs |= dense.forward_workspace(None, chunk)
    else:
        units, depth = block_units(attrs, s["w"]), w.shape[1]
        specs |= panel_workspace(depth, units)
        specs["block"] = TensorSpec((units, depth), FLOAT)
        if "dx" in s and units < w.shape[0] and not dense.back_adds(None, chunk):
            specs["addend"] = chunk["x"]
    if "dx" in s:
        back = dense.back_workspace(None, chunk)
        specs |= {f"back_{name}": spec for name, spec in back.items()}
    if "dw" in s:
        specs |= dense.filter_workspace(None, chunk)
    if "db" in s:
        specs["column"] = TensorSpec((y.shape[1],), FLOAT)
    return specs


def _bind(
    attrs: Any,
    *,
    x: Array,
    w: Array,
    t: Array,
    scale: Array,
    loss: Array,
    logits: Array,
    sums: Array,
    divisor: int,
    b: Array | None = None,
    dx: Array | None = None,
    terms: Array | None = None,
    best: Array | None = None,
    by_row: Array | None = None,
    panel: Array | None = None,
    back_panel: Array | None = None,
    block: Array | None = None,
    addend: Array | None = None,
    **gradients: Array,
) -> Callable[[], None]:
    """Returns the calls of all chunks. `gradients` are dw, db, and their workspace."""
    units, depth = attrs.shape
    x, t = x.reshape(-1, depth, copy=False), t.reshape(-1, copy=False)
    calls: list[Callable[[], None]] = []
    if by_row is not None:
        runs = by_row.reshape(scale.size, -1, copy=False)
        calls.append(call("scale", runs, (scale[:, np.newaxis],)))
        scale = by_row
    is_by_row = int(scale.size > 1)
    has_gradient = int(dx is not None or bool(gradients))
    numbers = units, is_by_row, float(attrs.loss.beta), float(divisor), has_gradient
    for k, first in enumerate(range(0, len(x), attrs.rows)):
        here = slice(first, first + attrs.rows)
        rows, y = x[here], logits[: len(x[here])]
        scales_of_rows = scale[here] if is_by_row else scale
        of_rows = (a if a is None else a[here] for a in (terms, best))
        if block is None:
            calls.append(dense.forward(None, x=rows, w=w, y=y, b=b, panel=panel))
        else:
            calls += _decoded_forward(attrs, rows, w, b, y, panel, block)
        operands = y, t[here], scales_of_rows, sums[k : k + 1], *of_rows, len(rows), *numbers
        calls.append(bind("label_rows", *operands))
        if gradients:
            calls += _add_gradients(rows, y, is_first=k == 0, **gradients)
        if dx is not None:
            to = dx.reshape(x.shape, copy=False)[here]
            if block is None:
                calls.append(dense.grad_x(None, dy=y, w=w, dx=to, panel=back_panel))
            else:
                calls += _decoded_back(attrs, y, w, to, back_panel, block, addend)
    calls.append(call("scale", loss, (sums,)))
    return in_order(calls)


def _decoded_forward(
    attrs: Any, x: Array, w: Array, b: Array | None, y: Array, panel: Array | None, block: Array
) -> list[Callable[[], None]]:
    """Returns the calls that compute y from weights that are decoded block by block."""
    units, depth = attrs.shape
    if panel is not None and can_pack(attrs, TensorSpec(w.shape, w.dtype)):
        return [stored_products.forward(attrs, x=x, w=w, y=y, panel=panel, b=b)]
    whole = dense.walk(len(x), depth, units, depth_stride=1, unit_stride=depth)
    calls: list[Callable[[], None]] = []
    for at in range(0, units, len(block)):
        real = block[: units - at]
        to = y.reshape(-1, copy=False)[at:]
        bias = None if b is None else b[at:]
        calls.append(decode_units(attrs.decoder, w, real, at, units))
        calls.append(correlate(x, real, to, panel, units_of(whole, len(real)), b=bias))
    return calls


def _decoded_back(
    attrs: Any,
    dy: Array,
    w: Array,
    dx: Array,
    panel: Array | None,
    block: Array,
    addend: Array | None,
) -> list[Callable[[], None]]:
    """Returns the calls that compute dx from weights that are decoded block by block.

    Each block but the first is added to those before: in the epilogue of its product, or from
    `addend` if vectors of the depth would overlap.
    """
    units, depth = attrs.shape
    packs = can_pack(attrs, TensorSpec(w.shape, w.dtype))
    calls: list[Callable[[], None]] = []
    for at in range(0, units, len(block)):
        real = block[: units - at]
        back = dense.walk(
            len(dy), len(real), depth, stride=units, depth_stride=depth, unit_stride=1
        )
        of_units = dy.reshape(-1, copy=False)[at:]
        to = dx if not at or addend is None else addend[: len(dx)]
        adds = dx if at and addend is None else None
        if packs:
            here = slice(at, at + len(real))
            calls.append(
                stored_products.product(
                    attrs, of_units, w, to, real, back, of_depth=True, units=here, addend=adds
                )
            )
        else:
            calls.append(decode_units(attrs.decoder, w, real, at, units))
            calls.append(correlate(of_units, real, to, panel, back, addend=adds))
        if to is not dx:
            calls.append(call("add", dx, (dx, to), -INFINITY, INFINITY))
    return calls


def _add_gradients(
    x: Array,
    dy: Array,
    *,
    is_first: bool,
    dw: Array | None = None,
    db: Array | None = None,
    scratch: Array | None = None,
    column: Array | None = None,
) -> list[Callable[[], None]]:
    """Returns the calls that add the gradients of a chunk to those of the chunks before."""
    calls: list[Callable[[], None]] = []
    to = db if is_first else column
    if dw is not None and scratch is not None:
        adds = None if is_first else ALWAYS
        of_bias = None if db is None else to
        calls.append(dense.grad_w(None, dy=dy, x=x, dw=dw, scratch=scratch, db=of_bias, adds=adds))
    elif to is not None:
        calls.append(COLUMN_SUMS.bind(None, dy=dy, db=to))
    if db is not None and column is not None and not is_first:
        calls.append(call("add", db, (db, column), -INFINITY, INFINITY))
    return calls


def compiled(prepare: Callable[[Any, Specs], Mapping[str, Any]]) -> Compiled:
    """Returns the compiled form; `prepare` returns the divisor of the loss."""
    return Compiled(_bind, fits, workspace, prepare)
