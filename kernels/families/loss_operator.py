"""The operator of a loss of one output: reads x, t and scale, and has a gradient by x."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from odt.kernels.rows.opdef import (
    Array,
    Attrs,
    Compiled,
    Kernel,
    OpDef,
    Options,
    Specs,
    no_arguments,
    no_attrs,
    no_specs,
)

SpecsOf: TypeAlias = Callable[[Attrs, Specs], Specs]


def loss_operator(
    name: str,
    infer: SpecsOf,
    forward: Callable[..., None],
    grad_x: Callable[..., None],
    *,
    workspace: SpecsOf,
    workspace_back: SpecsOf = no_specs,
    overwrites: tuple[str, ...] = (),
    saved: SpecsOf | None = None,
    attrs: Callable[[Options, Mapping[str, Array]], Attrs] = no_attrs,
    prepare: Callable[[Attrs, Specs], Mapping[str, Any]] = no_arguments,
    compiled: Compiled | None = None,
    compiled_back: Compiled | None = None,
) -> OpDef:
    """Makes the row of the operator from the loss's own parts.

    Args:
        name: name of the loss.
        infer: as in `OpDef`.
        forward: computes the loss.
        grad_x: computes dx.
        workspace: scratch arrays of `forward`; `workspace_back` those of `grad_x`.
        overwrites: arrays that dx may share memory with.
        saved: spec of the probabilities p if `forward` saves them for `grad_x`.
        attrs, prepare: as in `OpDef` and `Kernel`, for both kernels.
        compiled: compiled form of `forward`; `compiled_back` that of `grad_x`.
    """
    reads = ("x", "t", "scale")
    p = ("p?",) if saved else ()
    return OpDef(
        name,
        inputs=reads,
        infer=infer,
        forward=Kernel(
            forward,
            reads=reads,
            writes=("loss", *p),
            workspace=workspace,
            prepare=prepare,
            compiled=compiled,
        ),
        grads={
            "x": Kernel(
                grad_x,
                reads=("x", *p, "t", "scale"),
                writes=("dx",),
                workspace=workspace_back,
                may_alias=frozenset(("dx", a) for a in overwrites),
                prepare=prepare,
                compiled=compiled_back,
            )
        },
        stops=("t", "scale"),
        outputs=("loss",),
        aux=saved or no_specs,
        attrs=attrs,
    )
