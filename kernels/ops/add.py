"""ADD: y = a + b, with a and b broadcast.

da = dy and db = dy, each summed over the axes along which that input was broadcast.
"""

import numpy as np

from odt.kernels.families.binary import BINARY, IN_PLACE, infer, mixes_samples, passed_on
from odt.kernels.geometry.axes import same
from odt.kernels.native import elementwise
from odt.kernels.native.typed import ADD, also_integers
from odt.kernels.rows.opdef import ADDITION, Array, Kernel, OpDef
from odt.kernels.rows.quantizeddef import QuantizedDef


def forward(attrs: None, *, a: Array, b: Array, y: Array) -> None:
    np.add(a, b, out=y)


OP = OpDef(
    "ADD",
    inputs=BINARY,
    infer=infer,
    forward=Kernel(
        forward,
        reads=BINARY,
        writes=("y",),
        may_alias=IN_PLACE,
        compiled=also_integers(elementwise.ADD, ADD),
        epilogue=ADDITION,
    ),
    grads={"a": passed_on("a"), "b": passed_on("b")},
    mixes_samples=mixes_samples,
    add_batch_axis=same,
    permute=same,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 3},
        int8=True,
        int16=True,
        needs_scale=True,
        implies_activation=True,
    ),
)
