"""EMBEDDING_LOOKUP: rows of a table, selected by index.

ids (N,) integers    table (V, D…)    y (N, D…)

dtable: each row is the sum of dy over the ids that select it. Equal to GATHER along axis 0 with the
inputs in the other order. Source: the TFLite schema.
"""

from collections.abc import Callable

from odt.errors import ShapeError
from odt.kernels.families.gather import INDEX, bind_find, find, put, take
from odt.kernels.native.binding import Run, in_order
from odt.kernels.native.gather import fits, scatter_add, select
from odt.kernels.native.typed import find_rows, row_extent
from odt.kernels.rows.opdef import (
    Array,
    Compiled,
    Kernel,
    Names,
    OpDef,
    RowSums,
    Specs,
    TensorSpec,
    always,
)
from odt.kernels.rows.quantizeddef import QuantizedDef


def infer(attrs: None, s: Specs) -> Specs:
    ids, table = s["ids"], s["table"]
    if len(ids.shape) != 1 or ids.dtype.kind != "i" or len(table.shape) < 2:
        raise ShapeError(f"ids must be a list, table (V, D…), but got ids {ids}, table {table}")
    return {"y": TensorSpec((*ids.shape, *table.shape[1:]), table.dtype)}


def mixes_samples(attrs: None, s: Specs, batched: Names) -> bool:
    return "table" in batched


def workspace(attrs: None, s: Specs) -> Specs:
    at = TensorSpec(s["ids"].shape, INDEX)
    return {"at": at, "step": at}


def forward(attrs: None, *, ids: Array, table: Array, y: Array, at: Array, step: Array) -> None:
    find("EMBEDDING_LOOKUP", ids, table.shape[:1], at, step)
    if y.size:
        take(table, at, table.size // table.shape[0], y)


def compiled_workspace(attrs: None, s: Specs) -> Specs:
    return {"at": TensorSpec(s["ids"].shape, INDEX), **row_extent(1)}


def call_forward(
    attrs: None, *, ids: Array, table: Array, y: Array, at: Array, extent: Array
) -> Callable[[], None]:
    rows = bind_find("EMBEDDING_LOOKUP", ids, table.shape[:1], at, extent)
    return in_order([*rows, select(table, at, y)])


def grad_table(
    attrs: None, *, dy: Array, ids: Array, dtable: Array, at: Array, step: Array
) -> None:
    find("EMBEDDING_LOOKUP", ids, dtable.shape[:1], at, step)
    put(dtable, at, dtable.size // max(dtable.shape[0], 1), dy)


def call_grad_table(
    attrs: None, *, dy: Array, ids: Array, dtable: Array, at: Array, extent: Array
) -> Callable[[], None]:
    rows = bind_find("EMBEDDING_LOOKUP", ids, dtable.shape[:1], at, extent)
    return in_order([*rows, scatter_add(dy, at, dtable)])


def find_ids(attrs: None, *, ids: Array, at: Array, step: Array, entries: int) -> None:
    find("EMBEDDING_LOOKUP", ids, (entries,), at, step)


def call_find_ids(attrs: None, *, ids: Array, at: Array, extent: Array, entries: int) -> Run:
    return find_rows(ids, (entries,), at, extent)


OP = OpDef(
    "EMBEDDING_LOOKUP",
    inputs=("ids", "table"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("ids", "table"),
        writes=("y",),
        workspace=workspace,
        compiled=Compiled(call_forward, fits("y"), compiled_workspace),
    ),
    grads={
        "table": Kernel(
            grad_table,
            reads=("dy", "ids"),
            writes=("dtable",),
            workspace=workspace,
            compiled=Compiled(call_grad_table, fits("dy"), compiled_workspace),
            row_sums=RowSums(always, find_ids, call_find_ids),
        )
    },
    stops=("ids",),
    mixes_samples=mixes_samples,
    quantized=QuantizedDef(values="moved"),
)
