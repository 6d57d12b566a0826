"""PAD: pads x with zeros.

dx is dy without the padding.
"""

from odt.kernels.families.copies import Moves, copying, zeros
from odt.kernels.families.pad import (
    GRAD_X,
    PadAttrs,
    add_batch_axis_to_pads,
    border,
    infer,
    mixes_samples,
    moved_pads,
    pad_attrs,
)
from odt.kernels.rows.opdef import Array, OpDef
from odt.kernels.rows.quantizeddef import QuantizedDef


def forward(attrs: PadAttrs, *, x: Array, y: Array) -> Moves:
    yield from map(zeros, border(attrs, y))
    yield x, y[attrs.inside(x.shape)]


OP = OpDef(
    "PAD",
    inputs=("x", "paddings"),
    infer=infer,
    forward=copying(forward, ("x",), ("y",)),
    grads={"x": GRAD_X},
    static=("paddings",),
    attrs=pad_attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=add_batch_axis_to_pads,
    permute=moved_pads,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 3}, int8=True, int16=True, same="output", values="kept"
    ),
)
