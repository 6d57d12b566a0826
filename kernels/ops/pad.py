"""PAD: pads x with zeros.

dx is dy without the padding.
"""

import numpy as np

from odt.kernels.families.pad import (
    GRAD_X,
    PadAttrs,
    add_batch_axis_to_pads,
    fill_border,
    infer,
    mixes_samples,
    pad_attrs,
)
from odt.kernels.opdef import Array, Kernel, OpDef


def forward(attrs: PadAttrs, *, x: Array, y: Array) -> None:
    fill_border(attrs, y, 0)
    np.copyto(y[attrs.inside(x.shape)], x)


OP = OpDef(
    "PAD",
    inputs=("x", "paddings"),
    infer=infer,
    forward=Kernel(forward, reads=("x",), writes=("y",)),
    grads={"x": GRAD_X},
    static=("paddings",),
    attrs=pad_attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=add_batch_axis_to_pads,
)
