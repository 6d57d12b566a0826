"""GATHER_ND: entries of x, selected by index tuples.

x (S₁, …, S_K, R…)    indices (I…, K)    y (I…, R…)

dx: each entry is the sum of dy over the index tuples that select it. Source: tf.gather_nd.
"""

from collections.abc import Mapping
from typing import Any

from odt.kernels.families import gather
from odt.kernels.families.gather import lead_of
from odt.kernels.opdef import Array, Kernel, Names, OpDef, Specs, TensorSpec


def infer(attrs: None, s: Specs) -> Specs:
    x, indices = s["x"], s["indices"]
    lead = lead_of("x", x.shape, indices)
    return {"y": TensorSpec((*indices.shape[:-1], *x.shape[len(lead) :]), x.dtype)}


def mixes_samples(attrs: None, s: Specs, batched: Names) -> bool:
    """Whether entries are selected from a batched x: indices may select other samples."""
    return "x" in batched or ("indices" in batched and len(s["indices"].shape) == 1)


def workspace(attrs: None, s: Specs) -> Specs:
    return gather.workspace(s["indices"])


def geometry(attrs: None, s: Specs) -> Mapping[str, Any]:
    return gather.geometry(lead_of("x", s["x"].shape, s["indices"]), s["x"].shape)


def forward(
    attrs: None,
    *,
    x: Array,
    indices: Array,
    y: Array,
    at: Array,
    step: Array,
    lead: tuple[int, ...],
    width: int,
) -> None:
    gather.find("GATHER_ND", indices, lead, at, step)
    if y.size:
        gather.take(x, at, width, y)


def grad_x(
    attrs: None,
    *,
    dy: Array,
    indices: Array,
    dx: Array,
    at: Array,
    step: Array,
    lead: tuple[int, ...],
    width: int,
) -> None:
    gather.find("GATHER_ND", indices, lead, at, step)
    gather.put(dx, at, width, dy)


OP = OpDef(
    "GATHER_ND",
    inputs=("x", "indices"),
    infer=infer,
    forward=Kernel(
        forward, reads=("x", "indices"), writes=("y",), workspace=workspace, prepare=geometry
    ),
    grads={
        "x": Kernel(
            grad_x, reads=("dy", "indices"), writes=("dx",), workspace=workspace, prepare=geometry
        )
    },
    stops=("indices",),
    mixes_samples=mixes_samples,
)
