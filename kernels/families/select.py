"""SELECT and SELECT_V2: y = a where the condition is true, else b.

da = dy where the condition is true, db = dy where it is false; each summed over the axes along
which that input was broadcast.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from odt.kernels.families.binary import product_like_y, reducer, sum_into
from odt.kernels.geometry.axes import same
from odt.kernels.native import elementwise
from odt.kernels.native.typed import also_other_types
from odt.kernels.rows.opdef import Array, Attrs, Kernel, Names, OpDef, Specs
from odt.kernels.rows.quantizeddef import QuantizedDef


def forward(attrs: Attrs, *, c: Array, a: Array, b: Array, y: Array, shape: Any) -> None:
    np.copyto(y, b)
    np.copyto(y, a, where=c.reshape(shape, copy=False))


def selection(
    name: str,
    infer: Callable[[Attrs, Specs], Specs],
    mixes_samples: Callable[[Attrs, Specs, Names], bool],
    condition_shape: Callable[[Specs], tuple[int, ...]],
    quantized: QuantizedDef | None = None,
) -> OpDef:
    """Makes the row; `condition_shape` returns the shape of c that is broadcast to y."""

    def prepare(attrs: Attrs, s: Specs) -> Mapping[str, Any]:
        return {"shape": condition_shape(s)}

    compiled = elementwise.select(condition_shape)

    def grad(branch: str) -> Kernel:
        """Makes the kernel of the gradient by `branch`, a or b."""

        def workspace(attrs: Attrs, s: Specs) -> Specs:
            inverse = {} if branch == "a" else {"other": s["c"]}
            return {**inverse, **product_like_y(branch)(attrs, s)}

        def geometry(attrs: Attrs, s: Specs) -> Mapping[str, Any]:
            return {**prepare(attrs, s), **reducer(branch)(attrs, s)}

        def run(
            attrs: Attrs,
            *,
            dy: Array,
            c: Array,
            shape: tuple[int, ...],
            axes: tuple[int, ...],
            keepdims_shape: tuple[int, ...],
            unreduced: Array | None = None,
            other: Array | None = None,
            **gradient: Array,
        ) -> None:
            dx = gradient[f"d{branch}"]
            if other is not None:
                c = np.logical_not(c, out=other)
            product = dx if unreduced is None else unreduced
            np.multiply(dy, c.reshape(shape, copy=False), out=product)
            if unreduced is not None:
                sum_into(unreduced, dx, axes, keepdims_shape)

        return Kernel(
            run,
            reads=("dy", "c"),
            writes=(f"d{branch}",),
            workspace=workspace,
            prepare=geometry,
            compiled=compiled(f"d{branch}", "where_ge" if branch == "a" else "where_lt", "dy"),
        )

    return OpDef(
        name,
        inputs=("c", "a", "b"),
        infer=infer,
        forward=Kernel(
            forward,
            reads=("c", "a", "b"),
            writes=("y",),
            prepare=prepare,
            compiled=also_other_types(compiled("y", "select", "a", "b"), condition_shape),
        ),
        grads={"a": grad("a"), "b": grad("b")},
        stops=("c",),
        mixes_samples=mixes_samples,
        add_batch_axis=same,
        quantized=quantized,
    )
