"""ADD_N: y = Σ xs, inputs of one shape; the gradient by each input is dy."""

from collections.abc import Callable

import numpy as np

from odt.errors import ShapeError
from odt.kernels.geometry.axes import same
from odt.kernels.native import elementwise
from odt.kernels.native.binding import in_order
from odt.kernels.rows.opdef import Array, Compiled, Kernel, OpDef, Specs, always


def infer(attrs: None, s: Specs) -> Specs:
    if any(v != s["xs0"] for v in s.values()):
        shown = ", ".join(map(str, s.values()))
        raise ShapeError(f"all inputs must have one shape and dtype, but got {shown}")
    return {"y": s["xs0"]}


def forward(attrs: None, *, y: Array, **xs: Array) -> None:
    first, *others = (xs[f"xs{k}"] for k in range(len(xs)))
    np.copyto(y, first)
    for x in others:
        np.add(y, x, out=y)


def call_forward(attrs: None, *, y: Array, **xs: Array) -> Callable[[], None]:
    first, *others = (xs[f"xs{k}"] for k in range(len(xs)))
    if not others:
        return elementwise.call("scale", y, (first,))
    lefts = (first, *[y] * (len(others) - 1))
    pairs = zip(lefts, others, strict=True)
    return in_order([elementwise.ADD.bind(attrs, a=a, b=b, y=y) for a, b in pairs])


def grad(index: int) -> Kernel:
    def run(attrs: None, *, dy: Array, **gradient: Array) -> None:
        np.copyto(gradient[f"dxs{index}"], dy)

    return Kernel(run, reads=("dy",), writes=(f"dxs{index}",), view=always)


OP = OpDef(
    "ADD_N",
    inputs=("xs*",),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("xs*",),
        writes=("y",),
        compiled=Compiled(call_forward, elementwise.fits("xs0")),
    ),
    grads={"xs*": grad},
    add_batch_axis=same,
    permute=same,
)
