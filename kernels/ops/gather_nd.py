"""GATHER_ND: entries of x, selected by index tuples.

x (S₁, …, S_K, R…)    indices (I…, K)    y (I…, R…)

dx: each entry is the sum of dy over the index tuples that select it. With a separate axis for
samples, all samples have the same indices, or each has its own. Source: tf.gather_nd.
"""

from collections.abc import Callable, Mapping
from typing import Any

from odt.kernels.families import gather
from odt.kernels.families.gather import for_each_sample, lead_of, without_samples
from odt.kernels.native.gather import fits, scatter_add, select
from odt.kernels.rows.opdef import Array, Compiled, Kernel, Names, OpDef, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef


def infer(samples: int | None, s: Specs) -> Specs:
    """Infers y; `samples` is the length of an axis that `add_batch_axis` added, or None."""
    indices, x = without_samples(samples, s["indices"], s["x"])
    lead = lead_of("x", x.shape, indices)
    shape = (*indices.shape[:-1], *x.shape[len(lead) :])
    return {"y": TensorSpec(shape if samples is None else (samples, *shape), x.dtype)}


def mixes_samples(samples: int | None, s: Specs, batched: Names) -> bool:
    """Whether entries are selected from a batched x: indices may select other samples."""
    if samples is not None:
        return False
    return "x" in batched or ("indices" in batched and len(s["indices"].shape) == 1)


def workspace(samples: int | None, s: Specs) -> Specs:
    return gather.workspace(without_samples(samples, s["indices"], s["x"])[0])


def geometry(samples: int | None, s: Specs) -> Mapping[str, Any]:
    indices, x = without_samples(samples, s["indices"], s["x"])
    return gather.geometry(lead_of("x", x.shape, indices), x.shape)


def forward(
    samples: int | None,
    *,
    x: Array,
    indices: Array,
    y: Array,
    at: Array,
    step: Array,
    lead: tuple[int, ...],
    width: int,
) -> None:
    for entries, table, out in for_each_sample(samples, indices, x, y):
        gather.find("GATHER_ND", entries, lead, at, step)
        if out.size:
            gather.take(table, at, width, out)


def grad_x(
    samples: int | None,
    *,
    dy: Array,
    indices: Array,
    dx: Array,
    at: Array,
    step: Array,
    lead: tuple[int, ...],
    width: int,
) -> None:
    for entries, table, values in for_each_sample(samples, indices, dx, dy):
        gather.find("GATHER_ND", entries, lead, at, step)
        gather.put(table, at, width, values)


def compiled_workspace(samples: int | None, s: Specs) -> Specs:
    return gather.compiled_workspace(without_samples(samples, s["indices"], s["x"])[0])


def call_forward(
    samples: int | None,
    *,
    x: Array,
    indices: Array,
    y: Array,
    at: Array,
    extent: Array,
    lead: tuple[int, ...],
    width: int,
) -> Callable[[], None]:
    runs = for_each_sample(samples, indices, x, y)
    return gather.bind_entries(
        "GATHER_ND", runs, lead, at, extent, lambda table, out: select(table, at, out)
    )


def call_grad_x(
    samples: int | None,
    *,
    dy: Array,
    indices: Array,
    dx: Array,
    at: Array,
    extent: Array,
    lead: tuple[int, ...],
    width: int,
) -> Callable[[], None]:
    runs = for_each_sample(samples, indices, dx, dy)
    return gather.bind_entries(
        "GATHER_ND", runs, lead, at, extent, lambda table, values: scatter_add(values, at, table)
    )


def add_batch_axis(attrs: None, samples: int) -> int:
    return samples


OP = OpDef(
    "GATHER_ND",
    inputs=("x", "indices"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x", "indices"),
        writes=("y",),
        workspace=workspace,
        prepare=geometry,
        compiled=Compiled(call_forward, fits("y"), compiled_workspace, geometry),
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "indices"),
            writes=("dx",),
            workspace=workspace,
            prepare=geometry,
            compiled=Compiled(call_grad_x, fits("dy"), compiled_workspace, geometry),
        )
    },
    stops=("indices",),
    mixes_samples=mixes_samples,
    add_batch_axis=add_batch_axis,
    quantized=QuantizedDef(versions={"INT16": 3}, values="moved"),
)
