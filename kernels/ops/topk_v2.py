"""TOPK_V2: the k largest values along the last axis, in descending order, and their indices.

x (…, K)    values (…, k)    indices (…, k) int32, ascending for equal values

dx is the gradient of a value at its index, else 0. The values are selected one after the other, and
a selected one is replaced by −∞, so NumPy may select an x of −∞ twice. Source: tf.math.top_k.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.errors import ShapeError
from odt.kernels.geometry.axes import same
from odt.kernels.geometry.statics import number
from odt.kernels.native.gather import TOPK, TOPK_BACK
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef

INDEX, INT32 = np.dtype(np.intp), np.dtype(np.int32)


def attrs(options: Options, statics: Mapping[str, Array]) -> int:
    return number("k", statics)


def infer(k: int, s: Specs) -> Specs:
    x = s["x"]
    if not x.shape or not 0 <= k <= x.shape[-1] or x.dtype.kind != "f":
        raise ShapeError(f"k must be 0 … the last axis of x, of a float type, but got {k}, x {x}")
    shape = (*x.shape[:-1], k)
    return {"values": TensorSpec(shape, x.dtype), "indices": TensorSpec(shape, INT32)}


def mixes_samples(k: int, s: Specs, batched: Names) -> bool:
    return len(s["x"].shape) == 1


def workspace(k: int, s: Specs) -> Specs:
    rows = s["x"].size // max(s["x"].shape[-1], 1)
    return {
        "rest": s["x"],
        "at": TensorSpec((rows,), INDEX),
        "best": TensorSpec((rows,), s["x"].dtype),
    }


def rows(k: int, s: Specs) -> Mapping[str, Any]:
    """Prepares the flat index of the first value of each row."""
    width = s["x"].shape[-1]
    return {"first": np.arange(0, s["x"].size, max(width, 1), dtype=INDEX)}


def forward(
    k: int,
    *,
    x: Array,
    values: Array,
    indices: Array,
    rest: Array,
    at: Array,
    best: Array,
    first: Array,
) -> None:
    np.copyto(rest, x)
    flat, table = rest.reshape(-1, copy=False), rest.reshape(-1, x.shape[-1], copy=False)
    for j in range(k):
        np.argmax(table, axis=1, out=at)
        np.copyto(indices.reshape(-1, k, copy=False)[:, j], at, casting="same_kind")
        np.add(at, first, out=at)
        np.take(flat, at, out=best, mode="clip")
        np.copyto(values.reshape(-1, k, copy=False)[:, j], best)
        np.put(flat, at, -np.inf)


def back_workspace(k: int, s: Specs) -> Specs:
    return {n: v for n, v in workspace(k, s).items() if n != "rest"}


def grad_x(
    k: int, *, dvalues: Array, indices: Array, dx: Array, at: Array, best: Array, first: Array
) -> None:
    dx.fill(0)
    for j in range(k):
        np.add(indices.reshape(-1, k, copy=False)[:, j], first, out=at)
        np.copyto(best, dvalues.reshape(-1, k, copy=False)[:, j])
        np.put(dx, at, best)


OP = OpDef(
    "TOPK_V2",
    inputs=("x", "k"),
    outputs=("values", "indices"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x",),
        writes=("values", "indices"),
        workspace=workspace,
        prepare=rows,
        compiled=TOPK,
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dvalues", "indices"),
            writes=("dx",),
            workspace=back_workspace,
            prepare=rows,
            compiled=TOPK_BACK,
        )
    },
    static=("k",),
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=same,
    quantized=QuantizedDef(versions={"INT8": 2, "INT16": 3}),
)
