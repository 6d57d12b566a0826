"""ZEROS_LIKE: zeros with the shape of x; no gradient."""

from odt.kernels.families.elementwise import same_as_x
from odt.kernels.rows.opdef import Array, Kernel, OpDef


def forward(attrs: None, *, y: Array) -> None:
    y.fill(0)


OP = OpDef(
    "ZEROS_LIKE",
    inputs=("x",),
    infer=same_as_x,
    forward=Kernel(forward, reads=(), writes=("y",)),
    grads={},
    stops=("x",),
)
