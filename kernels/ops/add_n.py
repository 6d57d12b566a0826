"""ADD_N: y = Σ xs, inputs of one shape; the gradient by each input is dy."""

import numpy as np

from odt.errors import ShapeError
from odt.kernels.geometry.axes import same
from odt.kernels.opdef import Array, Kernel, OpDef, Specs, always


def infer(attrs: None, s: Specs) -> Specs:
    if any(v != s["xs0"] for v in s.values()):
        shown = ", ".join(map(str, s.values()))
        raise ShapeError(f"all inputs must have one shape and dtype, but got {shown}")
    return {"y": s["xs0"]}


def forward(attrs: None, *, y: Array, **xs: Array) -> None:
    for k in range(len(xs)):
        if k:
            np.add(y, xs[f"xs{k}"], out=y)
        else:
            np.copyto(y, xs["xs0"])


def grad(index: int) -> Kernel:
    def run(attrs: None, *, dy: Array, **gradient: Array) -> None:
        np.copyto(gradient[f"dxs{index}"], dy)

    return Kernel(run, reads=("dy",), writes=(f"dxs{index}",), view=always)


OP = OpDef(
    "ADD_N",
    inputs=("xs*",),
    infer=infer,
    forward=Kernel(forward, reads=("xs*",), writes=("y",)),
    grads={"xs*": grad},
    permute=same,
)
