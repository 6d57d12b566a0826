"""Operators that find or take values by their place."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.kernels.opdef import Array, TensorSpec
from op_db import OpInfo, Options, Refusal, Sample, distinct, integers

INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)


def one_hot(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    indices, depth = i["indices"], int(np.ravel(o["depth"])[0])
    hit = indices[..., None] == np.arange(depth)
    y = np.where(hit, i["on"].reshape(()), i["off"].reshape(()))
    return {"y": np.moveaxis(y, -1, o.get("axis", -1))}


def arg_max(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.argmax(i["x"], int(np.ravel(o["axis"])[0]))}


def arg_min(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.argmin(i["x"], int(np.ravel(o["axis"])[0]))}


def top_k(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, k = i["x"], int(np.ravel(o["k"])[0])
    order = np.argsort(-x, axis=-1, kind="stable")[..., :k]
    return {"values": np.take_along_axis(x, order, -1), "indices": order}


def gather_nd(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, indices = i["x"], i["indices"]
    return {"y": x[tuple(np.moveaxis(indices, -1, 0))]}


def scatter_nd(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    indices, updates = i["indices"], i["updates"]
    y = np.zeros(tuple(o["shape"]), updates.dtype)
    for at in np.ndindex(*indices.shape[:-1]):
        y[tuple(indices[at])] += updates[at]
    return {"y": y}


def lookup(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.array([i["table"][k] for k in i["ids"]])}


def ints(**named: Any) -> dict[str, Array]:
    return {n: np.array(v, np.int32) for n, v in named.items()}


def hot(label: str, indices: Any, depth: int, **more: Any) -> Sample:
    inputs: dict[str, Any] = {"indices": np.array(indices, np.int32), "on": (), "off": ()}
    return Sample(label, inputs, statics=ints(depth=depth), constants=("on", "off"), **more)


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
ARGUMENT_REFUSALS = (Refusal("one of x's", {"x": (2, 3)}, TO_INT32, ints(axis=2)),)
LARGE_ARGUMENT = Sample("large", {"x": (64, 64, 128)}, TO_INT32, ints(axis=2))
X, TABLE = ("x",), ("table",)

ROWS: tuple[OpInfo, ...] = (
    OpInfo(
        "ONE_HOT",
        one_hot,
        samples=(
            hot("classes", [0, 2, 1, 2], 3),
            hot("outside", [[0, -1], [3, 5]], 3),
            hot("before the last axis", [[0, 1, 1], [1, 0, 2]], 3, options={"axis": 1}),
            hot("first axis", [0, 1], 2, options={"axis": 0}, mixes=True),
        ),
        large=hot("large", np.arange(4096) % 64, 64),
        refusals=(
            Refusal("must be integers", {"indices": (2,), "on": (), "off": ()}, {}, ints(depth=2)),
            Refusal(
                "axis must be",
                {"indices": list_of(2), "on": (), "off": ()},
                {"axis": 3},
                ints(depth=2),
            ),
            Refusal(
                "depth must be", {"indices": list_of(2), "on": (), "off": ()}, {}, ints(depth=-1)
            ),
        ),
    ),
    OpInfo("ARG_MAX", arg_max, ARGUMENTS, LARGE_ARGUMENT, ARGUMENT_REFUSALS, draw=distinct),
    OpInfo("ARG_MIN", arg_min, ARGUMENTS, LARGE_ARGUMENT, ARGUMENT_REFUSALS, draw=distinct),
    OpInfo(
        "TOPK_V2",
        top_k,
        samples=(
            Sample("two of four", {"x": (2, 3, 4)}, {}, ints(k=2)),
            Sample("all", {"x": (3, 4)}, {}, ints(k=[4])),
            Sample("a list", {"x": (5,)}, {}, ints(k=2), mixes=True),
        ),
        large=Sample("large", {"x": (64, 4096)}, {}, ints(k=5)),
        refusals=(Refusal("k must be", {"x": (2, 3)}, {}, ints(k=4)),),
        draw=distinct,
    ),
    OpInfo(
        "GATHER_ND",
        gather_nd,
        samples=(
            Sample("rows", {"x": (5, 3), "indices": places(4, 5)}, constants=X),
            Sample("single values", {"x": (5, 3), "indices": places(4, 5, 3)}, constants=X),
            Sample(
                "inner rows",
                {"x": (4, 4, 2), "indices": places(6, 4, 4).reshape(2, 3, 2)},
                constants=X,
            ),
            Sample("of a batch", {"x": (5, 3), "indices": places(4, 5)}, mixes=True),
        ),
        large=Sample("large", {"x": (64, 64, 32), "indices": places(4096, 64, 64)}, constants=X),
        refusals=(
            Refusal("at most x's axes", {"x": (2, 3), "indices": list_of(4, 3)}),
            Refusal("must be integers", {"x": (2, 3), "indices": (4, 2)}),
        ),
    ),
    OpInfo(
        "SCATTER_ND",
        scatter_nd,
        samples=(
            Sample(
                "rows, twice the same",
                {"indices": np.array([[1], [3], [1]], np.int32), "updates": (3, 2)},
                {},
                ints(shape=[4, 2]),
                mixes=True,
            ),
            Sample(
                "single values",
                {"indices": places(4, 3, 2), "updates": (4,)},
                {},
                ints(shape=[3, 2]),
                mixes=True,
            ),
        ),
        large=Sample(
            "large",
            {"indices": places(2048, 64, 64), "updates": (2048, 64)},
            {},
            ints(shape=[64, 64, 64]),
            mixes=True,
        ),
        refusals=(
            Refusal(
                "updates must hold",
                {"indices": list_of(2, 1), "updates": (3, 2)},
                {},
                ints(shape=[4, 2]),
            ),
        ),
    ),
    OpInfo(
        "EMBEDDING_LOOKUP",
        lookup,
        samples=(
            Sample(
                "words", {"ids": np.array([1, 4, 1], np.int32), "table": (5, 3)}, constants=TABLE
            ),
            Sample(
                "cubes", {"ids": np.array([0, 2], np.int32), "table": (3, 2, 2)}, constants=TABLE
            ),
        ),
        large=Sample("large", {"ids": (4096,), "table": (100, 64)}, constants=TABLE),
        refusals=(Refusal("ids must be a list", {"ids": (2,), "table": (5, 3)}),),
        draws={"ids": integers(0, 100)},
    ),
)
