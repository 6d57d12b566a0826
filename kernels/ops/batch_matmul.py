"""BATCH_MATMUL: y = A B, matrix by matrix; leading axes are broadcast.

a (…, M, K), or (…, K, M) with adj_x    A (…, M, K)
b (…, K, P), or (…, P, K) with adj_y    B (…, K, P)    y (…, M, P)

dA = dy Bᵀ    dB = Aᵀ dy    each summed over the leading axes along which that input was broadcast

If b is one matrix for all rows of a, and a is not transposed, one product computes all rows.
Each product has four forms: transposed or not, as one product or one for each matrix.
Source: BatchMatMulOptions in the TFLite schema.
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.binary import summed_axes
from odt.kernels.geometry.axes import same
from odt.kernels.native import batch_matmul
from odt.kernels.rows.opdef import (
    Arithmetic,
    Array,
    Kernel,
    Names,
    OpDef,
    Options,
    Specs,
    TensorSpec,
)
from odt.kernels.rows.quantizeddef import QuantizedDef


@dataclass(frozen=True, slots=True)
class BatchMatmulAttrs:
    adj_x: bool
    adj_y: bool


def attrs(options: Options, statics: Mapping[str, Array]) -> BatchMatmulAttrs:
    return BatchMatmulAttrs(bool(options.get("adj_x", False)), bool(options.get("adj_y", False)))


def infer(attrs: BatchMatmulAttrs, s: Specs) -> Specs:
    a, b = s["a"], s["b"]
    try:
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        lead = None
    if lead is None or min(len(a.shape), len(b.shape)) < 2 or a.dtype != b.dtype:
        raise ShapeError(f"a and b must be matrices of matching leading axes, but got {a}, {b}")
    m, k = reversed(a.shape[-2:]) if attrs.adj_x else a.shape[-2:]
    k_of_b, p = reversed(b.shape[-2:]) if attrs.adj_y else b.shape[-2:]
    if k != k_of_b:
        raise ShapeError(f"A and B must be (…, M, K) and (…, K, P) with one K, but got {a}, {b}")
    return {"y": TensorSpec((*lead, m, p), a.dtype)}


def mixes_samples(attrs: BatchMatmulAttrs, s: Specs, batched: Names) -> bool:
    """Whether the batch is summed over, or is not axis 0 of y."""
    rank = max(len(s["a"].shape), len(s["b"].shape))
    if any(len(s[n].shape) < rank for n in batched):
        return True
    return rank == 2 and ("b" in batched or attrs.adj_x)


def transposed_if(adjoint: bool, a: Array) -> Array:
    return a.swapaxes(-1, -2) if adjoint else a


def is_long(attrs: BatchMatmulAttrs, s: Specs) -> bool:
    """Whether b is one matrix for all rows of a."""
    return not attrs.adj_x and prod(s["b"].shape[:-2]) == 1


def scratch(name: str) -> Callable[[BatchMatmulAttrs, Specs], Specs]:
    """Makes the workspace of the gradient by an input that was broadcast: it before the sum."""

    def workspace(attrs: BatchMatmulAttrs, s: Specs) -> Specs:
        x, lead = s[name], s["y"].shape[:-2]
        if is_long(attrs, s) or lead == (1,) * (len(lead) + 2 - len(x.shape)) + x.shape[:-2]:
            return {}
        return {"unreduced": TensorSpec((*lead, *x.shape[-2:]), x.dtype)}

    return workspace


def geometry(attrs: BatchMatmulAttrs, s: Specs) -> Mapping[str, Any]:
    return {"long": is_long(attrs, s)}


def rows(a: Array) -> Array:
    """Returns all rows of the matrices of a as one matrix."""
    return a.reshape(prod(a.shape[:-1]), a.shape[-1], copy=False)


def as_matrix(b: Array) -> Array:
    """Returns b, whose leading axes have length 1, without them."""
    return b.reshape(b.shape[-2:], copy=False)


def multiply(left: Array, right: Array, dx: Array, unreduced: Array | None) -> None:
    """Computes dx = left right, summed over the axes along which the product is longer than dx."""
    lead = max(left.ndim, right.ndim) - dx.ndim
    total = dx.reshape((1,) * lead + dx.shape, copy=False)
    if unreduced is None:
        np.matmul(left, right, out=total)
        return
    np.matmul(left, right, out=unreduced)
    np.sum(unreduced, axis=summed_axes(unreduced.shape, dx.shape), keepdims=True, out=total)


def forward(attrs: BatchMatmulAttrs, *, a: Array, b: Array, y: Array, long: bool) -> None:
    if long:
        np.matmul(rows(a), transposed_if(attrs.adj_y, as_matrix(b)), out=rows(y))
    else:
        np.matmul(transposed_if(attrs.adj_x, a), transposed_if(attrs.adj_y, b), out=y)


def grad_a(
    attrs: BatchMatmulAttrs,
    *,
    dy: Array,
    b: Array,
    da: Array,
    long: bool,
    unreduced: Array | None = None,
) -> None:
    if long:
        np.matmul(rows(dy), transposed_if(not attrs.adj_y, as_matrix(b)), out=rows(da))
    elif attrs.adj_x:
        multiply(transposed_if(attrs.adj_y, b), dy.swapaxes(-1, -2), da, unreduced)
    else:
        multiply(dy, transposed_if(not attrs.adj_y, b), da, unreduced)


def grad_b(
    attrs: BatchMatmulAttrs,
    *,
    dy: Array,
    a: Array,
    db: Array,
    long: bool,
    unreduced: Array | None = None,
) -> None:
    if long:
        a, dy, db = rows(a), rows(dy), as_matrix(db)
    if attrs.adj_y:
        multiply(dy.swapaxes(-1, -2), transposed_if(attrs.adj_x, a), db, unreduced)
    else:
        multiply(transposed_if(not attrs.adj_x, a), dy, db, unreduced)


def flops(attrs: BatchMatmulAttrs, s: Specs) -> int:
    return 2 * s["y"].size * s["b"].shape[-1 if attrs.adj_y else -2]


OP = OpDef(
    "BATCH_MATMUL",
    inputs=("a", "b"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("a", "b"),
        writes=("y",),
        prepare=geometry,
        compiled=batch_matmul.compiled_product("y", geometry),
    ),
    grads={
        "a": Kernel(
            grad_a,
            reads=("dy", "b"),
            writes=("da",),
            workspace=scratch("a"),
            prepare=geometry,
            compiled=batch_matmul.compiled_product("da", geometry),
        ),
        "b": Kernel(
            grad_b,
            reads=("dy", "a"),
            writes=("db",),
            workspace=scratch("b"),
            prepare=geometry,
            compiled=batch_matmul.compiled_product("db", geometry),
        ),
    },
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=same,
    flops=flops,
    arithmetic=Arithmetic.DENSE,
    quantized=QuantizedDef(versions={"INT8": 2, "INT16": 3}, int8=True, int16=True),
)
