"""ZEROS_LIKE: zeros with the shape of x; no gradient."""

from odt.kernels.families.elementwise import same_as_x
from odt.kernels.native.typed import clear
from odt.kernels.rows.opdef import Array, Compiled, Kernel, OpDef, always


def forward(attrs: None, *, y: Array) -> None:
    y.fill(0)


OP = OpDef(
    "ZEROS_LIKE",
    inputs=("x",),
    infer=same_as_x,
    forward=Kernel(forward, reads=(), writes=("y",), compiled=Compiled(clear, always)),
    grads={},
    stops=("x",),
)
