"""SCATTER_ND: adds updates to a tensor of zeros at entries given by index tuples.

indices (I…, K)    updates (I…, R…)    shape (S₁, …, S_K, R…), static    y of that shape

The gradient by updates is dy at the same entries. Source: tf.scatter_nd.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families import gather
from odt.kernels.families.gather import lead_of
from odt.kernels.opdef import Array, Kernel, Names, OpDef, Options, Specs, TensorSpec

Shape = tuple[int, ...]


def attrs(options: Options, statics: Mapping[str, Array]) -> Shape:
    return tuple(int(n) for n in np.ravel(statics["shape"]))


def infer(shape: Shape, s: Specs) -> Specs:
    indices, updates = s["indices"], s["updates"]
    lead = lead_of("shape", shape, indices)
    if updates.shape != (*indices.shape[:-1], *shape[len(lead) :]):
        raise ShapeError(
            f"updates must hold an entry of {shape} for each list of indices, "
            f"but got updates {updates}, indices {indices}"
        )
    return {"y": TensorSpec(shape, updates.dtype)}


def mixes_samples(shape: Shape, s: Specs, batched: Names) -> bool:
    return bool(batched)


def workspace(shape: Shape, s: Specs) -> Specs:
    return gather.workspace(s["indices"])


def geometry(shape: Shape, s: Specs) -> Mapping[str, Any]:
    return gather.geometry(lead_of("shape", shape, s["indices"]), shape)


def forward(
    shape: Shape,
    *,
    indices: Array,
    updates: Array,
    y: Array,
    at: Array,
    step: Array,
    lead: tuple[int, ...],
    width: int,
) -> None:
    gather.find("SCATTER_ND", indices, lead, at, step)
    gather.put(y, at, width, updates)


def grad_updates(
    shape: Shape,
    *,
    dy: Array,
    indices: Array,
    dupdates: Array,
    at: Array,
    step: Array,
    lead: tuple[int, ...],
    width: int,
) -> None:
    gather.find("SCATTER_ND", indices, lead, at, step)
    if dupdates.size:
        gather.take(dy, at, width, dupdates)


OP = OpDef(
    "SCATTER_ND",
    inputs=("indices", "updates", "shape"),
    infer=infer,
    forward=Kernel(
        forward, reads=("indices", "updates"), writes=("y",), workspace=workspace, prepare=geometry
    ),
    grads={
        "updates": Kernel(
            grad_updates,
            reads=("dy", "indices"),
            writes=("dupdates",),
            workspace=workspace,
            prepare=geometry,
        )
    },
    stops=("indices",),
    static=("shape",),
    attrs=attrs,
    mixes_samples=mixes_samples,
)
