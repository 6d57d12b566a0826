"""Compiled LSTM with four gates and tanh, without peepholes and projection.

Each part of a call computes all steps of some samples, so that their values stay in the cache.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from odt.kernels.geometry.lstm_geometry import GATES, TANH, LstmAttrs
from odt.kernels.native.batch_matmul import DEEPEST
from odt.kernels.native.binding import bind
from odt.kernels.native.elementwise import elementwise_shape
from odt.kernels.native.float32 import FLOAT
from odt.kernels.native.library import limit
from odt.kernels.native.structs import LstmShape, MatmulShape
from odt.kernels.opdef import Array, Compiled, Specs, TensorSpec

MOST_GATES = 4 * DEEPEST  # values of all gates of a row, up to which d.x is compiled


def lstm_shape(attrs: LstmAttrs, lead: tuple[int, ...], depth: int, units: int) -> LstmShape:
    """Returns the struct, from the axes of samples and time; without time, one step."""
    if attrs.time_axis == 0:
        steps, samples, rows = *lead, (1, lead[1])
    else:
        samples, steps = (*lead, 1)[:2]
        rows = steps, 1
    return LstmShape(samples, steps, depth, units, *rows, attrs.cell_clip or np.inf)


def fits(attrs: LstmAttrs, s: Specs) -> bool:
    return (
        attrs.activation == TANH
        and "ri" in s
        and "pf" not in s
        and "wp" not in s
        and "nf" not in s
        and s["cells"].dtype == FLOAT
        and s["cells"].size > 0
    )


def scratch(packed: int, columns: int, blocks: int, samples: int) -> Specs:
    """Returns the workspace for packed rows of weights and each part's blocks of LSTM_ROWS rows."""
    rows = packed + blocks * limit("LSTM_ROWS") * min(limit("LSTM_PARTS"), samples)
    return {"scratch": TensorSpec((rows * (columns + limit("MAX_LANES")),), FLOAT)}


def samples_of(attrs: LstmAttrs, cells: TensorSpec) -> int:
    return cells.shape[1 if attrs.time_axis == 0 else 0]


def forward_workspace(attrs: LstmAttrs, s: Specs) -> Specs:
    units, depth = s["wf"].shape
    return scratch(depth + units + 1, len(GATES) * units, 1, samples_of(attrs, s["cells"]))


def forward(
    attrs: LstmAttrs,
    *,
    x: Array,
    y: Array,
    gates: Array,
    cells: Array,
    scratch: Array,
    **given: Array,
) -> Callable[[], None]:
    weights = [given[kind + gate] for kind in "wrb" for gate in GATES]
    shape = lstm_shape(attrs, x.shape[:-1], x.shape[-1], cells.shape[-1])
    return bind("lstm", x, y, gates, cells, scratch, *weights, shape)


def back_workspace(attrs: LstmAttrs, s: Specs) -> Specs:
    units = s["cells"].shape[-1]
    return scratch(len(GATES) * units, units, 2, samples_of(attrs, s["cells"]))


def backward(
    attrs: LstmAttrs,
    *,
    dy: Array,
    gates: Array,
    cells: Array,
    dz: Array,
    scratch: Array,
    **given: Any,
) -> Callable[[], None]:
    weights = [given[f"r{gate}"] for gate in GATES]
    shape = lstm_shape(attrs, cells.shape[:-1], 0, cells.shape[-1])
    return bind("lstm_back", dy, gates, cells, dz, scratch, *weights, shape)


def fits_gradient(attrs: LstmAttrs, s: Specs) -> bool:
    gates = s["gates"]
    return gates.dtype == FLOAT and 0 < gates.size <= DEEPEST * gates.shape[-1]


def fits_input_gradient(attrs: LstmAttrs, s: Specs) -> bool:
    gates, x = s["gates"], s["x"]
    return gates.dtype == x.dtype == FLOAT and x.size > 0 and 0 < gates.shape[-1] <= MOST_GATES


def part_of(dz: Array, gate: int, units: int) -> Array:
    """Returns the elements of dz from those of a gate on; rows are dz.shape[-1] apart."""
    return dz.reshape(-1, copy=False)[gate * units :]


def panel(rows: TensorSpec, *, side: bool = False) -> Specs:
    """Returns the workspace of a product for its second factor, or with `side` for blocks of dz."""
    lanes = limit("MAX_LANES")
    if rows.shape[-1] >= lanes and not side:
        return {}
    width = lanes if rows.shape[-1] < lanes else limit("ROW_BLOCK")
    return {"panel": TensorSpec((limit("PANEL_PARTS"), rows.size // rows.shape[-1], width), FLOAT)}


def weight_gradient(
    dz: Array,
    gate: int,
    x: Array,
    dw: Array,
    panel: Array | None = None,
    *,
    blocks: int = 1,
    later: int = 0,
) -> Callable[[], None]:
    """Computes dw = dzᵀ x of a gate, over all rows.

    Args:
        dz: gradients by the arguments of all gates.
        gate: number of the gate.
        x: rows of the other factor.
        dw: result.
        panel: workspace.
        blocks: equal blocks of the rows.
        later: rows of each block by which dz is later than x; the first of dz, and the last of x,
            have no part in the result.
    """
    units, width = dw.shape
    wide, rows = dz.shape[-1], x.size // width // blocks
    shape = MatmulShape(
        count=1,
        rows=units,
        blocks=blocks,
        depth=rows - later,
        columns=width,
        left_row_stride=1,
        left_block_stride=rows * wide,
        left_depth_stride=wide,
        right_block_stride=rows * width,
        right_depth_stride=width,
        right_column_stride=1,
    )
    return bind("matmul", shape, part_of(dz, gate, units)[later * wide :], x, dw, panel)


def input_gradient(
    dz: Array, w: Array, dx: Array, panel: Array | None = None
) -> Callable[[], None]:
    """Computes dx = dz w, where w holds the weights of all gates."""
    wide, width = w.shape
    shape = MatmulShape(
        count=1,
        rows=dx.size // width,
        blocks=1,
        depth=wide,
        columns=width,
        left_row_stride=wide,
        left_depth_stride=1,
        right_depth_stride=width,
        right_column_stride=1,
    )
    return bind("matmul", shape, dz, w, dx, panel)


def bias_gradient(dz: Array, gate: int, db: Array) -> Callable[[], None]:
    """Computes the sums of a gate's columns of dz."""
    wide = dz.shape[-1]
    shape = elementwise_shape(((dz.size // wide, (0, wide)), (db.size, (1, 1))))
    return bind("map_scale", shape, db, part_of(dz, gate, db.size), None, None, 1.0, 1.0)


FORWARD = Compiled(forward, fits, forward_workspace)
BACKWARD = Compiled(backward, fits, back_workspace)
