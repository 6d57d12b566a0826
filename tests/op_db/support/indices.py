"""Indices, and the samples of ARG_MAX and ARG_MIN."""

from typing import Any

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import INT32, INT64, Refusal, Sample


def ints(**named: Any) -> dict[str, Array]:
    return {n: np.array(v, np.int32) for n, v in named.items()}


def list_of(*shape: int) -> TensorSpec:
    return TensorSpec(shape, INT32)


def places(count: int, *sizes: int) -> Array:
    rng = np.random.default_rng(6)
    return np.stack([rng.integers(0, n, count) for n in sizes], -1).astype(np.int32)


TO_INT32 = {"output_types": (INT32,)}
TIES = np.array([[1.0, 3.0, 3.0], [-2.0, -2.0, -5.0]])
ARGUMENTS = (
    Sample("last", {"x": (2, 3, 4)}, {"output_types": (INT64,)}, ints(axis=-1)),
    Sample("inner", {"x": (2, 3, 4)}, TO_INT32, ints(axis=[1])),
    Sample("equals", {"x": TIES}, TO_INT32, ints(axis=1)),
    Sample("the batch", {"x": (3, 2)}, TO_INT32, ints(axis=0), mixes=True),
)

ARGUMENT_REFUSALS = (Refusal("axis of x that has", {"x": (2, 3)}, TO_INT32, ints(axis=2)),)
LARGE_ARGUMENT = Sample("large", {"x": (64, 64, 128)}, TO_INT32, ints(axis=2))
