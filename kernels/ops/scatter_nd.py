"""SCATTER_ND: adds updates to a tensor of zeros at entries given by index tuples.

indices (I…, K)    updates (I…, R…)    shape (S₁, …, S_K, R…), static    y of that shape

The gradient by updates is dy at the same entries. With a separate axis for samples, all samples
have the same indices, or each has its own. Source: tf.scatter_nd.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families import gather
from odt.kernels.families.gather import for_each_sample, lead_of, without_samples
from odt.kernels.native.gather import fits, scatter_add, select
from odt.kernels.rows.opdef import Array, Compiled, Kernel, Names, OpDef, Options, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class ScatterAttrs:
    """Shape of y, and the number of samples along an added axis; None without one."""

    shape: tuple[int, ...]
    samples: int | None = None


def attrs(options: Options, statics: Mapping[str, Array]) -> ScatterAttrs:
    return ScatterAttrs(tuple(int(n) for n in np.ravel(statics["shape"])))


def infer(attrs: ScatterAttrs, s: Specs) -> Specs:
    shape = attrs.shape
    if min(shape, default=0) < 0:
        raise ShapeError(f"shape must be 0 or more, but got {shape}")
    indices, updates = without_samples(attrs.samples, s["indices"], s["updates"])
    lead = lead_of("shape", shape, indices)
    if updates.shape != (*indices.shape[:-1], *shape[len(lead) :]):
        raise ShapeError(
            f"updates must hold an entry of {shape} for each list of indices, "
            f"but got updates {updates}, indices {indices}"
        )
    lead_axes = () if attrs.samples is None else (attrs.samples,)
    return {"y": TensorSpec((*lead_axes, *shape), updates.dtype)}


def mixes_samples(attrs: ScatterAttrs, s: Specs, batched: Names) -> bool:
    return attrs.samples is None and bool(batched)


def workspace(attrs: ScatterAttrs, s: Specs) -> Specs:
    return gather.workspace(without_samples(attrs.samples, s["indices"], s["updates"])[0])


def geometry(attrs: ScatterAttrs, s: Specs) -> Mapping[str, Any]:
    indices, _ = without_samples(attrs.samples, s["indices"], s["updates"])
    return gather.geometry(lead_of("shape", attrs.shape, indices), attrs.shape)


def forward(
    attrs: ScatterAttrs,
    *,
    indices: Array,
    updates: Array,
    y: Array,
    at: Array,
    step: Array,
    lead: tuple[int, ...],
    width: int,
) -> None:
    for entries, values, table in for_each_sample(attrs.samples, indices, updates, y):
        gather.find("SCATTER_ND", entries, lead, at, step)
        gather.put(table, at, width, values)


def grad_updates(
    attrs: ScatterAttrs,
    *,
    dy: Array,
    indices: Array,
    dupdates: Array,
    at: Array,
    step: Array,
    lead: tuple[int, ...],
    width: int,
) -> None:
    for entries, out, table in for_each_sample(attrs.samples, indices, dupdates, dy):
        gather.find("SCATTER_ND", entries, lead, at, step)
        if out.size:
            gather.take(table, at, width, out)


def compiled_workspace(attrs: ScatterAttrs, s: Specs) -> Specs:
    indices, _ = without_samples(attrs.samples, s["indices"], s["updates"])
    return gather.compiled_workspace(indices)


def call_forward(
    attrs: ScatterAttrs,
    *,
    indices: Array,
    updates: Array,
    y: Array,
    at: Array,
    extent: Array,
    lead: tuple[int, ...],
    width: int,
) -> Callable[[], None]:
    runs = for_each_sample(attrs.samples, indices, updates, y)
    return gather.bind_entries(
        "SCATTER_ND", runs, lead, at, extent, lambda values, table: scatter_add(values, at, table)
    )


def call_grad_updates(
    attrs: ScatterAttrs,
    *,
    dy: Array,
    indices: Array,
    dupdates: Array,
    at: Array,
    extent: Array,
    lead: tuple[int, ...],
    width: int,
) -> Callable[[], None]:
    runs = for_each_sample(attrs.samples, indices, dupdates, dy)
    return gather.bind_entries(
        "SCATTER_ND", runs, lead, at, extent, lambda out, table: select(table, at, out)
    )


def add_batch_axis(attrs: ScatterAttrs, samples: int) -> ScatterAttrs:
    return replace(attrs, samples=samples)


OP = OpDef(
    "SCATTER_ND",
    inputs=("indices", "updates", "shape"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("indices", "updates"),
        writes=("y",),
        workspace=workspace,
        prepare=geometry,
        compiled=Compiled(call_forward, fits("updates"), compiled_workspace, geometry),
    ),
    grads={
        "updates": Kernel(
            grad_updates,
            reads=("dy", "indices"),
            writes=("dupdates",),
            workspace=workspace,
            prepare=geometry,
            compiled=Compiled(call_grad_updates, fits("dupdates"), compiled_workspace, geometry),
        )
    },
    stops=("indices",),
    static=("shape",),
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=add_batch_axis,
)
