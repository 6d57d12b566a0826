"""Compiled RNN, GRU with the reset after the product, and LSTM with four gates and tanh.

LSTMs with peepholes, a projection, layer normalization or initial states are not compiled.

Each part of a call computes all steps of some samples, so that their values stay in the cache.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from odt.kernels.geometry.activations import BOUNDS, NONE, TANH
from odt.kernels.geometry.recurrent_geometry import GATES, GruAttrs, LstmAttrs, RnnAttrs
from odt.kernels.native.batch_matmul import fits_panel, panel
from odt.kernels.native.binding import bind
from odt.kernels.native.elementwise import column_sums
from odt.kernels.native.float32 import FLOAT, VECTOR
from odt.kernels.native.library import limit
from odt.kernels.native.structs import MatmulShape, RecurrentShape
from odt.kernels.rows.opdef import Array, Compiled, Specs, TensorSpec

LARGE = 2**19  # recurrent weights that are read from outside a core's cache at each step of time
RecurrentAttrs = LstmAttrs | RnnAttrs | GruAttrs


def recurrent_shape(
    attrs: LstmAttrs | RnnAttrs, lead: tuple[int, ...], depth: int, units: int
) -> RecurrentShape:
    """Returns the struct, from the axes of samples and time; without time, one step."""
    if attrs.time_axis == 0:
        steps, samples, strides = *lead, (1, lead[1])
    else:
        samples, steps = (*lead, 1)[:2]
        strides = steps, 1
    if isinstance(attrs, LstmAttrs):
        gates, clip = len(GATES), attrs.cell_clip or np.inf
        bounds = -clip, clip
    else:
        gates, bounds = 1, BOUNDS.get(attrs.activation, BOUNDS[NONE])
    is_tanh = attrs.activation == TANH
    return RecurrentShape(samples, steps, depth, units, gates, *strides, is_tanh, *bounds)


def fits_lstm(attrs: LstmAttrs, s: Specs) -> bool:
    return (
        attrs.activation == TANH
        and "ri" in s
        and "pf" not in s
        and "wp" not in s
        and "nf" not in s
        and s["cells"].dtype == FLOAT
        and s["cells"].size > 0
    )


def divides_lstm(attrs: LstmAttrs, s: Specs) -> bool:
    return len(GATES) * s["ri"].size > LARGE


def divides_rnn(attrs: RnnAttrs, s: Specs) -> bool:
    return s["r"].size > LARGE


def fits_rnn(attrs: RnnAttrs, s: Specs) -> bool:
    return s["y"].dtype == FLOAT and s["y"].size > 0


def scratch(packed: int, columns: int, blocks: int, samples: int) -> Specs:
    """Returns the workspace for packed rows of weights, and each part's RECURRENT_ROWS rows."""
    rows = packed + blocks * limit("RECURRENT_ROWS") * min(limit("RECURRENT_PARTS"), samples)
    return {"scratch": TensorSpec((rows * (columns + limit("MAX_LANES")),), FLOAT)}


def samples_of(attrs: RecurrentAttrs, y: TensorSpec | Array) -> int:
    return y.shape[1 if attrs.time_axis == 0 else 0]


def lstm_workspace(attrs: LstmAttrs, s: Specs) -> Specs:
    units, depth = s["wf"].shape
    return scratch(depth + units + 1, len(GATES) * units, 1, samples_of(attrs, s["cells"]))


def rnn_workspace(attrs: RnnAttrs, s: Specs) -> Specs:
    units, depth = s["w"].shape
    return scratch(depth + units + 1, units, 1, samples_of(attrs, s["y"]))


def rnn(
    attrs: RnnAttrs, *, x: Array, w: Array, r: Array, b: Array, y: Array, scratch: Array
) -> Callable[[], None]:
    shape = recurrent_shape(attrs, x.shape[:-1], x.shape[-1], y.shape[-1])
    return bind("rnn", x, y, scratch, w, r, b, shape)


def rnn_back_workspace(attrs: RnnAttrs, s: Specs) -> Specs:
    units = s["y"].shape[-1]
    return scratch(units, units, 2, samples_of(attrs, s["y"]))


def rnn_back(
    attrs: RnnAttrs, *, dy: Array, y: Array, r: Array, dz: Array, scratch: Array
) -> Callable[[], None]:
    shape = recurrent_shape(attrs, y.shape[:-1], 0, y.shape[-1])
    return bind("rnn_back", dy, y, dz, scratch, r, shape)


def lstm(
    attrs: LstmAttrs,
    *,
    x: Array,
    y: Array,
    gates: Array,
    cells: Array,
    scratch: Array,
    **arrays: Array,
) -> Callable[[], None]:
    weights = [arrays[kind + gate] for kind in "wrb" for gate in GATES]
    shape = recurrent_shape(attrs, x.shape[:-1], x.shape[-1], cells.shape[-1])
    return bind("lstm", x, y, gates, cells, scratch, *weights, shape)


def lstm_back_workspace(attrs: LstmAttrs, s: Specs) -> Specs:
    units = s["cells"].shape[-1]
    return scratch(len(GATES) * units, units, 2, samples_of(attrs, s["cells"]))


def lstm_back(
    attrs: LstmAttrs,
    *,
    dy: Array,
    gates: Array,
    cells: Array,
    dz: Array,
    scratch: Array,
    **arrays: Any,
) -> Callable[[], None]:
    weights = [arrays[f"r{gate}"] for gate in GATES]
    shape = recurrent_shape(attrs, cells.shape[:-1], 0, cells.shape[-1])
    return bind("lstm_back", dy, gates, cells, dz, scratch, *weights, shape)


def _dz(s: Specs) -> TensorSpec:
    """Returns the spec of dz, which is that of the gates of an LSTM, or of y of an RNN."""
    return s["gates"] if "gates" in s else s["y"]


def fits_gradient(attrs: RecurrentAttrs, s: Specs) -> bool:
    return _dz(s).dtype == FLOAT and _dz(s).size > 0


def fits_input_gradient(attrs: RecurrentAttrs, s: Specs) -> bool:
    return fits_gradient(attrs, s) and fits_panel(_dz(s).shape[-1], s["x"].shape[-1])


def _from(dz: Array, gate: int, units: int) -> Array:
    """Returns the elements of dz from those of a gate on; rows are dz.shape[-1] apart."""
    return dz.reshape(-1, copy=False)[gate * units :]


def _steps(s: Specs) -> int:
    """Returns the number of steps of all samples."""
    return _dz(s).size // _dz(s).shape[-1]


def input_panel(attrs: RecurrentAttrs, s: Specs) -> Specs:
    lanes, columns = limit("MAX_LANES"), s["x"].shape[-1]
    return (
        {} if columns >= VECTOR else panel(_dz(s).shape[-1], columns, -(-columns // lanes) * lanes)
    )


def by_weights(x: str, gate: int) -> Compiled:
    """Makes dw = dzᵀ x of a gate, over all steps, or dr = dzᵀ y, with y of the step before.

    Args:
        x: name of the other factor, x or y.
        gate: number of the gate.
    """

    def fits(attrs: RecurrentAttrs, s: Specs) -> bool:
        return fits_gradient(attrs, s) and fits_panel(_steps(s), s[x].shape[-1])

    def workspace(attrs: RecurrentAttrs, s: Specs) -> Specs:
        lanes, columns = limit("MAX_LANES"), s[x].shape[-1]
        return panel(_steps(s), columns, lanes if columns < lanes else limit("ROW_BLOCK"))

    def to_call(
        attrs: RecurrentAttrs, *, dz: Array, panel: Array, **arrays: Array
    ) -> Callable[[], None]:
        factor = arrays.pop(x)
        (dw,) = arrays.values()
        # In each block of rows, row k of x meets row k + later of dz.
        blocks, later = 1, 0
        if x == "y" and attrs.time_axis == 1:
            blocks, later = len(factor), 1
        elif x == "y":
            later = factor.shape[-2]
        units, width = dw.shape
        wide, rows = dz.shape[-1], factor.size // width // blocks
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
        return bind("matmul", shape, _from(dz, gate, units)[later * wide :], factor, dw, panel)

    return Compiled(to_call, fits, workspace)


def by_bias(gate: int) -> Compiled:
    """Makes the sums of a gate's columns of dz, or of da with layer normalization."""

    def to_call(
        attrs: RecurrentAttrs, *, dz: Array, da: Array | None = None, **gradient: Array
    ) -> Callable[[], None]:
        (db,) = gradient.values()
        summed = dz if da is None else da
        return column_sums(summed, db, summed.shape[-1], gate * db.size)

    return Compiled(to_call, fits_gradient)


def input_gradient(
    attrs: RecurrentAttrs, *, dz: Array, w: Array, dx: Array, panel: Array | None = None
) -> Callable[[], None]:
    """Returns a call that computes dx = dz w, where w holds the weights of all gates."""
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


GRU_GATES, GRU_COLUMNS = 3, 4  # w₃ x and r₃ h have columns of their own


def gru_shape(attrs: GruAttrs, y: Array, depth: int, gates: int) -> RecurrentShape:
    samples, steps = samples_of(attrs, y), y.shape[attrs.time_axis]
    strides = (1, samples) if attrs.time_axis == 0 else (steps, 1)
    return RecurrentShape(samples, steps, depth, y.shape[2], gates, *strides, True, -np.inf, np.inf)


def fits_gru(attrs: GruAttrs, s: Specs) -> bool:
    y = s["y"]
    states = s["h"].shape[0] == samples_of(attrs, y) if "h" in s else True
    return attrs.reset_after and states and y.dtype == FLOAT and y.size > 0


def divides_gru(attrs: GruAttrs, s: Specs) -> bool:
    return s["r"].size > LARGE


def gru_workspace(attrs: GruAttrs, s: Specs) -> Specs:
    units, depth = s["y"].shape[2], s["x"].shape[2]
    return scratch(depth + units + 1, GRU_COLUMNS * units, 1, samples_of(attrs, s["y"]))


def gru(
    attrs: GruAttrs,
    *,
    x: Array,
    w: Array,
    r: Array,
    b: Array,
    c: Array,
    y: Array,
    gates: Array,
    inner: Array,
    scratch: Array,
    h: Array | None = None,
) -> Callable[[], None]:
    shape = gru_shape(attrs, y, x.shape[2], GRU_COLUMNS)
    return bind("gru", x, y, gates, inner, scratch, w, r, b, c, h, shape)


def gru_back_workspace(attrs: GruAttrs, s: Specs) -> Specs:
    units = s["y"].shape[2]
    return scratch(GRU_GATES * units, units, 2, samples_of(attrs, s["y"]))


def gru_back(
    attrs: GruAttrs,
    *,
    dy: Array,
    y: Array,
    gates: Array,
    inner: Array,
    r: Array,
    dz: Array,
    dp: Array,
    before: Array,
    dstate: Array,
    scratch: Array,
    h: Array | None = None,
) -> Callable[[], None]:
    shape = gru_shape(attrs, y, 0, GRU_GATES)
    return bind("gru_back", dy, y, gates, inner, h, dz, dp, before, dstate, scratch, r, shape)


def by_products(compiled: Compiled, *unread: str) -> Compiled:
    """Makes a gradient of a GRU by the products with its state, from dp in place of dz.

    Args:
        compiled: the gradient from dz.
        unread: arrays of the kernel that it does not take.
    """

    def to_call(attrs: GruAttrs, *, dp: Array, **arrays: Any) -> Callable[[], None]:
        for name in unread:
            del arrays[name]
        return compiled.bind(attrs, dz=dp, **arrays)

    def fits(attrs: GruAttrs, s: Specs) -> bool:
        return attrs.reset_after and compiled.fits(attrs, {**s, "before": s["y"]})

    def workspace(attrs: GruAttrs, s: Specs) -> Specs:
        return compiled.workspace(attrs, {**s, "before": s["y"]})

    return Compiled(to_call, fits, workspace)


BY_X = Compiled(input_gradient, fits_input_gradient, input_panel)
RNN = Compiled(rnn, fits_rnn, rnn_workspace, divides=divides_rnn)
RNN_BACK = Compiled(rnn_back, fits_rnn, rnn_back_workspace)
GRU = Compiled(gru, fits_gru, gru_workspace, divides=divides_gru)
GRU_BACK = Compiled(gru_back, fits_gru, gru_back_workspace)
LSTM = Compiled(lstm, fits_lstm, lstm_workspace, divides=divides_lstm)
LSTM_BACK = Compiled(lstm_back, fits_lstm, lstm_back_workspace)
