"""GATHER and CAST."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.kernels.opdef import Array, TensorSpec
from op_db import OpInfo, Options, Refusal, Sample, integers

INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)
FLOAT32, FLOAT64, BOOL = np.dtype(np.float32), np.dtype(np.float64), np.dtype(bool)


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


def cast(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, dtype = i["x"], o["output_types"][0]
    if dtype.kind == "b":
        return {"y": x != 0}
    return {"y": np.trunc(x).astype(dtype) if dtype.kind in "iu" else x * 1.0}


def picks(*shape: int) -> Array:
    return np.random.default_rng(7).integers(0, 3, shape).astype(np.int32)


def both(
    label: str, x: tuple[int, ...], indices: Array, axis: int = 0, dims: int = 0, **more: Any
) -> Sample:
    options = {"axis": axis, "batch_dims": dims}
    return Sample(label, {"x": x, "indices": indices}, options, **more)


def to(dtype: np.dtype[Any]) -> dict[str, Any]:
    return {"output_types": (dtype,)}


X, INDICES = ("x",), ("indices",)
FLOATS = np.array([[-2.7, -0.4, 0.0, 0.4, 2.7]])
NUMBERS = np.array([[-2, 0, 3]], np.int32)

ROWS: tuple[OpInfo, ...] = (
    OpInfo(
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
        also_large=(
            Sample("inner", {"x": (32, 64, 64), "indices": (100,)}, {"axis": 1}, {}, INDICES),
        ),
        refusals=(
            Refusal(
                "axis must be one", {"x": (3, 2), "indices": TensorSpec((2,), INT32)}, {"axis": 2}
            ),
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
    ),
    OpInfo(
        "CAST",
        cast,
        samples=(
            Sample("float to double", {"x": (2, 3)}, to(FLOAT64)),
            Sample("float to integer", {"x": FLOATS}, to(INT32)),
            Sample("float to bool", {"x": FLOATS}, to(BOOL)),
            Sample("integer to float", {"x": NUMBERS}, to(FLOAT32)),
            Sample("integer to integer", {"x": NUMBERS}, to(INT64)),
            Sample("bool to float", {"x": NUMBERS > 0}, to(FLOAT32)),
            Sample("nothing", {"x": NUMBERS}, to(INT32)),
        ),
        large=Sample("large", {"x": (512, 512)}, to(FLOAT64)),
        also_large=(Sample("to integer", {"x": (512, 1024)}, to(INT32)),),
        refusals=(Refusal("real numbers", {"x": (2,)}, to(np.dtype(np.complex64))),),
    ),
)
