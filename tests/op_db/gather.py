"""GATHER: reference and samples."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import INT32, OpInfo, Options, Refusal, Sample, integers


def gather(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """Value by value, from tf.gather's definition."""
    x, indices = i["x"], i["indices"]
    axis = o.get("axis", 0) % x.ndim
    dims = o.get("batch_dims", 0) % max(indices.ndim, 1)
    inner = indices.ndim - dims
    y = np.zeros((*x.shape[:axis], *indices.shape[dims:], *x.shape[axis + 1 :]), x.dtype)
    for at in np.ndindex(*y.shape[: axis + inner]):
        k = indices[(*at[:dims], *at[axis : axis + inner])]
        y[at] = x[(*at[:axis], k)]
    return {"y": y}


def picks(*shape: int) -> Array:
    return np.random.default_rng(7).integers(0, 3, shape).astype(np.int32)


def both(
    label: str, x: tuple[int, ...], indices: Array, axis: int = 0, dims: int = 0, **more: Any
) -> Sample:
    options = {"axis": axis, "batch_dims": dims}
    return Sample(label, {"x": x, "indices": indices}, options, **more)


X = ("x",)
INDICES = ("indices",)
INFO = OpInfo(
    "GATHER",
    gather,
    samples=(
        both("an embedding", (5, 4), picks(2, 3), constants=X),
        both("one each", (3, 2), picks(4), constants=X),
        both("64 bits", (3, 2), picks(4).astype(np.int64), constants=X),
        both("values of a list", (6,), picks(2, 2), constants=X),
        both("columns", (2, 3), picks(4), axis=1, constants=INDICES),
        both(
            "inner axis, twice the same",
            (2, 3, 2),
            np.array([1, 1], np.int32),
            1,
            0,
            constants=INDICES,
        ),
        both("last axis", (2, 2, 3), picks(2, 2), axis=-1, constants=INDICES),
        both("one entry", (2, 3, 2), np.array(1, np.int32), axis=1, constants=INDICES),
        both("its own for each sample", (2, 3, 2), picks(2, 4), 1, 1),
        both("batch_dims before an inner axis", (2, 2, 3, 2), picks(2, 2), 2, 1),
        both("two batch_dims", (2, 2, 3), picks(2, 2, 2), 2, 2),
        both("batch_dims from the end", (2, 3), picks(2, 2), 1, -1),
        both("samples of a batch", (3, 2), picks(2), constants=INDICES, mixes=True),
        both("all by all", (2, 3), picks(2, 2), axis=1, mixes=True),
        both("columns by sample", (2, 3), picks(2), axis=1, constants=X, mixes=True),
        both("nothing", (3, 2), np.zeros((2, 0), np.int32), constants=X),
        Sample("integers", {"x": np.arange(4, dtype=np.int32), "indices": picks(2)}, {}, {}, X),
    ),
    large=Sample("large", {"x": (1000, 64), "indices": (32, 128)}, {}, {}, X),
    also_large=(Sample("inner", {"x": (32, 64, 64), "indices": (100,)}, {"axis": 1}, {}, INDICES),),
    refusals=(
        Refusal("axis must be one", {"x": (3, 2), "indices": TensorSpec((2,), INT32)}, {"axis": 2}),
        Refusal(
            "up to batch_dims",
            {"x": (3, 2), "indices": TensorSpec((2, 2), INT32)},
            {"axis": 1, "batch_dims": 1},
        ),
        Refusal(
            "up to batch_dims",
            {"x": (3, 2), "indices": TensorSpec((3, 2), INT32)},
            {"axis": 0, "batch_dims": 1},
        ),
        Refusal("integers", {"x": (3, 2), "indices": (2,)}),
    ),
    draws={"indices": integers(0, 60)},
)
