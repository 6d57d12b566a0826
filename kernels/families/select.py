"""SELECT and SELECT_V2: y = a where the condition is true, else b.

da = dy where the condition is true, db = dy where it is false; each summed over the axes along
which that input was broadcast.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from odt.kernels.families.binary import summed_axes
from odt.kernels.geometry.axes import same
from odt.kernels.opdef import Array, Attrs, Kernel, Names, OpDef, Specs, TensorSpec


def forward(attrs: Attrs, *, c: Array, a: Array, b: Array, y: Array, stand: Any) -> None:
    np.copyto(y, b)
    np.copyto(y, a, where=c.reshape(stand, copy=False))


def selection(
    name: str,
    infer: Callable[[Attrs, Specs], Specs],
    mixes_samples: Callable[[Attrs, Specs, Names], bool],
    stands: Callable[[Specs], tuple[int, ...]],
) -> OpDef:
    """Makes the row; `stands` returns the shape with which the condition is broadcast to y."""

    def prepare(attrs: Attrs, s: Specs) -> Mapping[str, Any]:
        return {"stand": stands(s)}

    def grad(of: str) -> Kernel:
        def room(attrs: Attrs, s: Specs) -> Specs:
            inverse = {} if of == "a" else {"other": TensorSpec(s["c"].shape, s["c"].dtype)}
            return inverse | ({"whole": s["y"]} if s[of].shape != s["y"].shape else {})

        def geometry(attrs: Attrs, s: Specs) -> Mapping[str, Any]:
            y, x = s["y"].shape, s[of].shape
            kept = (1,) * (len(y) - len(x)) + x
            return {"stand": stands(s), "axes": summed_axes(y, x), "kept": kept}

        def run(
            attrs: Attrs,
            *,
            dy: Array,
            c: Array,
            stand: tuple[int, ...],
            axes: tuple[int, ...],
            kept: tuple[int, ...],
            whole: Array | None = None,
            other: Array | None = None,
            **gradient: Array,
        ) -> None:
            dx = gradient[f"d{of}"]
            if other is not None:
                c = np.logical_not(c, out=other)
            np.multiply(dy, c.reshape(stand, copy=False), out=dx if whole is None else whole)
            if whole is not None:
                np.sum(whole, axis=axes, keepdims=True, out=dx.reshape(kept, copy=False))

        return Kernel(run, reads=("dy", "c"), writes=(f"d{of}",), workspace=room, prepare=geometry)

    return OpDef(
        name,
        inputs=("c", "a", "b"),
        infer=infer,
        forward=Kernel(forward, reads=("c", "a", "b"), writes=("y",), prepare=prepare),
        grads={"a": grad("a"), "b": grad("b")},
        stops=("c",),
        mixes_samples=mixes_samples,
        add_batch_axis=same,
    )
