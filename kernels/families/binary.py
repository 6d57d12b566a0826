"""Binary operators that broadcast their inputs, as in NumPy and TFLite."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from odt.errors import DataError, ShapeError
from odt.kernels.geometry.axes import same
from odt.kernels.native import elementwise
from odt.kernels.rows.opdef import (
    Array,
    Attrs,
    Compiled,
    Kernel,
    Names,
    OpDef,
    Specs,
    TensorSpec,
    no_specs,
)
from odt.kernels.rows.quantizeddef import QuantizedDef


def infer(attrs: Attrs, s: Specs) -> Specs:
    """Infers y from inputs a and b that are numbers."""
    if s["a"].dtype.kind == "b":
        raise ShapeError(f"a and b must be numbers, but got a {s['a']}, b {s['b']}")
    return infer_any(attrs, s)


def infer_any(attrs: Attrs, s: Specs) -> Specs:
    """Infers y from inputs a and b of one type."""
    a, b = s["a"], s["b"]
    if a.dtype != b.dtype:
        raise ShapeError(f"a and b must have one type, but got a {a}, b {b}")
    return {"y": TensorSpec(broadcast_shape(s), a.dtype)}


def broadcast_shape(s: Specs) -> tuple[int, ...]:
    """Returns the shape of y for inputs a and b.

    Raises:
        ShapeError: if they do not broadcast.
    """
    a, b = s["a"], s["b"]
    try:
        return np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise ShapeError(
            f"a and b must match from the last axis on, but got a {a}, b {b}"
        ) from None


def refuse_zeros(name: str) -> Callable[[Array], None]:
    """Makes the check of an operator that integer divisors are not 0; it raises DataError."""

    def check(b: Array) -> None:
        if not np.all(b):
            raise DataError(f"{name}: b must not be 0 among integers, but got 0")

    return check


def mixes_samples(attrs: Attrs, s: Specs, batched: Names) -> bool:
    """Whether a batched input has fewer axes than y, so that its batch is not axis 0 of y."""
    rank = max(len(s["a"].shape), len(s["b"].shape))
    return any(len(s[n].shape) < rank for n in batched)


def summed_axes(y: tuple[int, ...], x: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the axes of y along which x was broadcast."""
    lead = len(y) - len(x)
    return tuple(range(lead)) + tuple(
        k for k in range(lead, len(y)) if x[k - lead] == 1 and y[k] != 1
    )


def reducer(name: str) -> Callable[[Attrs, Specs], Mapping[str, Any]]:
    """Makes `prepare` of the gradient by the input `name`.

    It returns the axes to sum over, and the shape of the input with all axes of y.
    """

    def prepare(attrs: Attrs, s: Specs) -> Mapping[str, Any]:
        y, x = s["y"].shape, s[name].shape
        keepdims_shape = (1,) * (len(y) - len(x)) + x
        return {"axes": summed_axes(y, x), "keepdims_shape": keepdims_shape}

    return prepare


def product_like_y(name: str) -> Callable[[Attrs, Specs], Specs]:
    """Makes the workspace of a gradient before its sum, as large as y; none for equal shapes."""

    def workspace(attrs: Attrs, s: Specs) -> Specs:
        return {"unreduced": s["y"]} if s["y"].shape != s[name].shape else {}

    return workspace


def sum_into(
    unreduced: Array, dx: Array, axes: tuple[int, ...], keepdims_shape: tuple[int, ...]
) -> None:
    """Sums into dx over the axes along which x was broadcast."""
    np.sum(unreduced, axis=axes, keepdims=True, out=dx.reshape(keepdims_shape, copy=False))


def is_not_broadcast(name: str) -> Callable[[Attrs, Specs], bool]:
    """Makes the test whether an input has the shape of y, so that its gradient may be dy itself."""

    def view(attrs: Attrs, s: Specs) -> bool:
        return s[name].shape == s["y"].shape

    return view


def passed_on(name: str) -> Kernel:
    """Makes the kernel of a gradient that is dy, summed over the axes of the broadcast."""

    def run(
        attrs: Attrs, *, axes: tuple[int, ...], keepdims_shape: tuple[int, ...], **arrays: Array
    ) -> None:
        sum_into(arrays["dy"], arrays[f"d{name}"], axes, keepdims_shape)

    return Kernel(
        run,
        reads=("dy",),
        writes=(f"d{name}",),
        prepare=reducer(name),
        view=is_not_broadcast(name),
        compiled=elementwise.sums(name),
    )


BINARY = ("a", "b")
IN_PLACE = frozenset({("y", "a"), ("y", "b")})


def gradient(
    name: str,
    f: Callable[..., None],
    reads: tuple[str, ...],
    workspace: Callable[[Attrs, Specs], Specs] = no_specs,
    compiled: Compiled | None = None,
    *,
    over: tuple[str, ...] = (),
) -> Kernel:
    """Makes the kernel of an input gradient from the function that computes it before the sums.

    Args:
        name: name of the input.
        f: f(attrs, out=…, reads and workspace by name) fills out, which has the shape of y.
        reads: as in Kernel.
        workspace: workspace of f.
        compiled: compiled form of the kernel.
        over: arrays among `reads` that the gradient may overwrite.
    """

    def run(
        attrs: Attrs,
        *,
        axes: tuple[int, ...],
        keepdims_shape: tuple[int, ...],
        unreduced: Array | None = None,
        **arrays: Array,
    ) -> None:
        dx = arrays.pop(f"d{name}")
        if unreduced is None:
            f(attrs, out=dx, **arrays)
            return
        f(attrs, out=unreduced, **arrays)
        sum_into(unreduced, dx, axes, keepdims_shape)

    def scratch(attrs: Attrs, s: Specs) -> Specs:
        return {**product_like_y(name)(attrs, s), **workspace(attrs, s)}

    return Kernel(
        run,
        reads=reads,
        writes=(f"d{name}",),
        workspace=scratch,
        may_alias=frozenset((f"d{name}", n) for n in over),
        prepare=reducer(name),
        compiled=compiled,
    )


def binary(
    name: str,
    forward: Callable[..., None],
    grad_a: Kernel,
    grad_b: Kernel,
    compiled: Compiled | None = None,
    quantized: QuantizedDef | None = None,
) -> OpDef:
    """Makes the row of an elementwise operator y = f(a, b); y may alias a or b."""
    return OpDef(
        name,
        inputs=BINARY,
        infer=infer,
        forward=Kernel(forward, reads=BINARY, writes=("y",), may_alias=IN_PLACE, compiled=compiled),
        grads={"a": grad_a, "b": grad_b},
        mixes_samples=mixes_samples,
        add_batch_axis=same,
        permute=same,
        quantized=quantized,
    )
