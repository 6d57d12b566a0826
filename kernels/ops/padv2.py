"""PADV2: pads x with a constant value.

dx is dy without the padding. The value has no gradient, because it is a setting and not a weight:
it may be −∞ before a maximum.
"""

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.copies import Moves, copying
from odt.kernels.families.pad import (
    GRAD_X,
    PadAttrs,
    add_batch_axis_to_pads,
    border,
    mixes_samples,
    moved_pads,
    pad_attrs,
)
from odt.kernels.families.pad import infer as infer_pad
from odt.kernels.rows.opdef import Array, OpDef, Specs
from odt.kernels.rows.quantizeddef import QuantizedDef


def infer(attrs: PadAttrs, s: Specs) -> Specs:
    if s["value"].size != 1 or s["value"].dtype != s["x"].dtype:
        raise ShapeError(f"value must be one {s['x'].dtype}, but got {s['value']}")
    return infer_pad(attrs, s)


def forward(attrs: PadAttrs, *, x: Array, value: Array, y: Array) -> Moves:
    scalar = value.reshape((), copy=False)
    yield from ((np.broadcast_to(scalar, part.shape), part) for part in border(attrs, y))
    yield x, y[attrs.inside(x.shape)]


OP = OpDef(
    "PADV2",
    inputs=("x", "paddings", "value"),
    infer=infer,
    forward=copying(forward, ("x", "value"), ("y",)),
    grads={"x": GRAD_X},
    stops=("value",),
    static=("paddings",),
    attrs=pad_attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=add_batch_axis_to_pads,
    permute=moved_pads,
    quantized=QuantizedDef(versions={"INT8": 2, "INT16": 3}, values="within"),
)
