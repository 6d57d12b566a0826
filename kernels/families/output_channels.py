"""Filter gradients of selected output channels, for sparse training.

With dy' the selected entries of dy's last axis, dw' = dw(dy', x): a smaller product by the same
kernel.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from odt.kernels.rows.opdef import Array, Attrs, Compiled, Kernel, OpDef, Specs, TensorSpec

CHOSEN = "dy_chosen"


def of_channels(kernel: Kernel, channels: Array) -> Kernel:
    """Makes the kernel of the gradient by w[channels].

    Args:
        kernel: kernel of the gradient by w (O, …), from dy (…, O).
        channels: selected channels, ascending.
    """

    def narrow(specs: Specs) -> Specs:
        return {n: narrowed(n, s, len(channels)) for n, s in specs.items()}

    def workspace(form: Kernel | Compiled) -> Callable[[Attrs, Specs], Specs]:
        def workspace(attrs: Attrs, specs: Specs) -> Specs:
            chosen = narrow(specs)
            return {CHOSEN: chosen["dy"], **form.workspace(attrs, chosen)}

        return workspace

    def prepare(form: Kernel | Compiled) -> Callable[[Attrs, Specs], Mapping[str, Any]]:
        return lambda attrs, specs: form.prepare(attrs, narrow(specs))

    def run(attrs: Attrs, *, dy: Array, dy_chosen: Array, **arrays: Any) -> None:
        np.take(dy, channels, axis=-1, out=dy_chosen, mode="clip")  # other modes allocate a buffer
        kernel.run(attrs, dy=dy_chosen, **arrays)

    def narrowed_form(form: Compiled) -> Compiled:
        return Compiled(
            _bound(form, channels),
            lambda attrs, specs: form.fits(attrs, narrow(specs)),
            workspace(form),
            prepare(form),
            bf16=form.bf16 and narrowed_form(form.bf16),
        )

    compiled = kernel.compiled
    return Kernel(
        run,
        kernel.reads,
        kernel.writes,
        workspace(kernel),
        prepare=prepare(kernel),
        compiled=compiled and narrowed_form(compiled),
    )


def counted(row: OpDef, count: int) -> OpDef:
    """Returns the row with the flops of `count` output channels."""

    def flops(attrs: Attrs, specs: Specs) -> int:
        return row.flops(attrs, {n: narrowed(n, s, count) for n, s in specs.items()})

    return replace(row, flops=flops)


def narrowed(name: str, spec: TensorSpec, count: int) -> TensorSpec:
    """Returns the spec of an operator's array for `count` output channels."""
    if name in ("y", "dy"):
        return TensorSpec((*spec.shape[:-1], count), spec.dtype)
    if name in ("w", "b"):
        return TensorSpec((count, *spec.shape[1:]), spec.dtype)
    return spec


def _bound(compiled: Compiled, channels: Array) -> Callable[..., Callable[[], None]]:
    def bind(attrs: Attrs, *, dy: Array, dy_chosen: Array, **arrays: Any) -> Callable[[], None]:
        call = compiled.bind(attrs, dy=dy_chosen, **arrays)

        def run() -> None:
            np.take(dy, channels, axis=-1, out=dy_chosen, mode="clip")
            call()

        return run

    return bind
