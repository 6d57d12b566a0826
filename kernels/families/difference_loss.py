"""Losses that are the mean over a sample's elements of a function of x − t."""

from collections.abc import Callable, Mapping

from odt.errors import ShapeError
from odt.kernels.opdef import (
    Array,
    Attrs,
    Compiled,
    Kernel,
    OpDef,
    Options,
    Specs,
    TensorSpec,
    no_attrs,
)


def infer(attrs: Attrs, s: Specs) -> Specs:
    if s["t"] != s["x"] or not s["x"].shape:
        raise ShapeError(f"t must be like x, (N, …), but got x {s['x']}, t {s['t']}")
    return {"loss": TensorSpec((1,), s["x"].dtype)}


def difference(attrs: Attrs, s: Specs) -> Specs:
    return {"difference": s["x"]}


def difference_loss(
    name: str,
    forward: Callable[..., None],
    grad_x: Callable[..., None],
    workspace: Callable[[Attrs, Specs], Specs] = difference,
    attrs: Callable[[Options, Mapping[str, Array]], Attrs] = no_attrs,
    compiled: Compiled | None = None,
    compiled_back: Compiled | None = None,
) -> OpDef:
    """Makes the operator of such a loss; its gradient may overwrite x or t."""
    reads = ("x", "t", "scale")
    aliases = frozenset({("dx", "x"), ("dx", "t")})
    return OpDef(
        name,
        inputs=reads,
        infer=infer,
        forward=Kernel(
            forward, reads=reads, writes=("loss",), workspace=workspace, compiled=compiled
        ),
        grads={
            "x": Kernel(
                grad_x, reads=reads, writes=("dx",), may_alias=aliases, compiled=compiled_back
            )
        },
        stops=("t", "scale"),
        outputs=("loss",),
        attrs=attrs,
    )


def elements(x: Array) -> int:
    """Returns the number of elements of a sample."""
    return int(x.size // x.shape[0])
