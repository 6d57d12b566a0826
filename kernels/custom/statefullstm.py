"""CUSTOM:StatefulLstm: LSTM with initial states; `last` is the last cell state.

x (N, T, I), or (T, N, I) if time_major    y (N, T, P)    last (N, O): the cell after the last step
h (N, P), c (N, O), or one row for all samples: states before the first step, 0 if absent

Weights and formulas: kernels/families/lstm.py. The fused activation is that of the cell.
Source: LSTM of ONNX.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.lstm import R, lstm_attrs
from odt.kernels.families.lstm import forward as run_steps
from odt.kernels.families.lstm import infer as infer_steps
from odt.kernels.families.lstm_gradients import grad_c, grad_h, lstm_row, state_work
from odt.kernels.families.recurrent import by_time
from odt.kernels.geometry.recurrent_geometry import LstmAttrs
from odt.kernels.rows.opdef import Array, Kernel, OpDef, Options, Specs, TensorSpec


def attrs(options: Options, statics: Mapping[str, Array]) -> LstmAttrs:
    return lstm_attrs(options, 0 if options.get("time_major", False) else 1)


def infer(attrs: LstmAttrs, s: Specs) -> Specs:
    specs = infer_steps(attrs, s)
    y = specs["y"]
    if not y.shape[attrs.time_axis or 0]:
        raise ShapeError(f"x must have steps, but got x {s['x']}")
    samples, units = y.shape[1 if attrs.time_axis == 0 else 0], s["wf"].shape[0]
    return {**specs, "last": TensorSpec((samples, units), y.dtype)}


def forward(attrs: LstmAttrs, *, last: Array, cells: Array, **arrays: Array) -> None:
    run_steps(attrs, cells=cells, **arrays)
    np.copyto(last, by_time(attrs.time_axis, cells)[-1])


def _row() -> OpDef:
    """Returns the row of TFLite's LSTMs with states; kernels that read states are not compiled."""
    row = lstm_row("CUSTOM:StatefulLstm", attrs)
    back = row.backward
    assert back is not None, "an LSTM has a backward kernel"
    states = {**dict.fromkeys(("rf", "rg", "ro", "ri"), "h?"), "pf": "c?", "pi": "c?"}
    with_states = {}
    for name, state in states.items():
        kernel = row.grads[name]
        assert isinstance(kernel, Kernel), "weights are no variadic inputs"
        with_states[name] = replace(kernel, reads=(*kernel.reads, state), compiled=None)
    return replace(
        row,
        infer=infer,
        outputs=("y", "last"),
        zero_state=(),
        forward=replace(
            row.forward,
            run=forward,
            reads=(*row.forward.reads, "h?", "c?"),
            writes=(*row.forward.writes, "last"),
            compiled=None,
        ),
        backward=replace(
            back,
            reads=(*back.reads, "dlast", "c?"),
            writes=(*back.writes, "dstate?"),
            compiled=None,
        ),
        grads={
            **row.grads,
            **with_states,
            "h": Kernel(
                grad_h,
                reads=("dz", *R),
                writes=("dh",),
                workspace=state_work,
            ),
            "c": Kernel(grad_c, reads=("dstate",), writes=("dc",)),
        },
    )


OP = _row()
