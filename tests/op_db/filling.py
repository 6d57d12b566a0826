"""Operators that repeat, fill, mirror and choose between values."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.kernels.opdef import Array, TensorSpec
from op_db import OpInfo, Options, Refusal, Sample

INT32, BOOL = np.dtype(np.int32), np.dtype(bool)


def tile(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.tile(i["x"], tuple(o["multiples"]))}


def broadcast_to(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": i["x"] + np.zeros(tuple(o["shape"]), i["x"].dtype)}


def broadcast_args(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    a, b = (list(map(int, i[n])) for n in "ab")
    rank = max(len(a), len(b))
    a, b = ([1] * (rank - len(v)) + v for v in (a, b))
    return {"y": np.array([m if n == 1 else n for m, n in zip(a, b, strict=True)])}


def fill(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.ones(tuple(o["dims"]), i["value"].dtype) * i["value"].reshape(())}


def arange(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    found, at, last, step = [], *(o[n].item() for n in ("start", "limit", "delta"))
    while (at < last) if step > 0 else (at > last):
        found.append(at)
        at += step
    return {"y": np.array(found, o["start"].dtype)}


def zeros_like(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": i["x"] * 0}


def add_n(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.sum(list(i.values()), axis=0)}


def select(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    c, a = i["c"], i["a"]
    if c.shape != a.shape:
        c = c.reshape(-1, *[1] * (a.ndim - 1))
    return {"y": np.where(c, a, i["b"])}


def select_v2(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.where(i["c"], i["a"], i["b"])}


def mirror(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.pad(i["x"], o["paddings"], ("reflect", "symmetric")[o.get("mode", 0)])}


def ints(**named: Any) -> dict[str, Array]:
    return {n: np.array(v, np.int32) for n, v in named.items()}


def yes(*shape: int) -> Array:
    return np.asarray(np.random.default_rng(4).random(shape) < 0.5)


def pick(
    label: str, c: tuple[int, ...], a: tuple[int, ...], b: tuple[int, ...], **o: Any
) -> Sample:
    return Sample(label, {"c": yes(*c), "a": a, "b": b}, **o)


def flags(*shape: int) -> TensorSpec:
    return TensorSpec(shape, BOOL)


X = {"x": (2, 3, 4)}
HALVES = {"start": 0.5, "limit": 2.0, "delta": [0.25]}
ROWS: tuple[OpInfo, ...] = (
    OpInfo(
        "TILE",
        tile,
        samples=(
            Sample("two axes", X, {}, ints(multiples=[1, 2, 3])),
            Sample("nothing", X, {}, ints(multiples=[1, 1, 1])),
            Sample("rows", {"x": (2, 3)}, {}, ints(multiples=[3, 1]), mixes=True),
            Sample("a list", {"x": (1,)}, {}, ints(multiples=[4]), mixes=True),
        ),
        large=Sample("large", {"x": (8, 64, 64)}, {}, ints(multiples=[1, 2, 8])),
        refusals=(
            Refusal("for each axis", {"x": (2, 3)}, {}, ints(multiples=[1])),
            Refusal("1 or more", {"x": (2, 3)}, {}, ints(multiples=[1, 0])),
        ),
    ),
    OpInfo(
        "BROADCAST_TO",
        broadcast_to,
        samples=(
            Sample("an axis of 1", {"x": (2, 1, 3)}, {}, ints(shape=[2, 4, 3])),
            Sample("nothing", {"x": (2, 3)}, {}, ints(shape=[2, 3])),
            Sample("a constant", {"x": (3,)}, {}, ints(shape=[2, 3]), rebatches=False),
            Sample("new axes", {"x": (2, 3)}, {}, ints(shape=[4, 2, 3]), rebatches=False),
        ),
        large=Sample("large", {"x": (8, 1, 256)}, {}, ints(shape=[8, 256, 256])),
        refusals=(
            Refusal("x stretches to", {"x": (2, 3)}, {}, ints(shape=[2, 4])),
            Refusal("x stretches to", {"x": (2, 3)}, {}, ints(shape=[3])),
        ),
    ),
    OpInfo(
        "BROADCAST_ARGS",
        broadcast_args,
        samples=(
            Sample("lists", ints(a=[2, 1, 3], b=[4, 1]), mixes=True),
            Sample("equal", ints(a=[2, 3], b=[2, 3]), mixes=True),
        ),
        large=Sample("large", ints(a=[1, 7] * 80000, b=[3, 1] * 40000), mixes=True),
        refusals=(Refusal("lists of integers", {"a": (2,), "b": (2,)}),),
    ),
    OpInfo(
        "FILL",
        fill,
        samples=(
            Sample("a number", {"value": ()}, {}, ints(dims=[2, 3]), ("value",), rebatches=False),
            Sample("a list", {"value": (1,)}, {}, ints(dims=[4]), ("value",), rebatches=False),
        ),
        large=Sample("large", {"value": ()}, {}, ints(dims=[512, 512]), ("value",)),
        refusals=(Refusal("one number", {"value": (2,)}, {}, ints(dims=[2])),),
    ),
    OpInfo(
        "RANGE",
        arange,
        samples=(
            Sample("up", {}, {}, ints(start=2, limit=9, delta=3), rebatches=False),
            Sample("down", {}, {}, ints(start=5, limit=0, delta=-2), rebatches=False),
            Sample("none", {}, {}, ints(start=5, limit=0, delta=2), rebatches=False),
            Sample(
                "floats",
                {},
                {},
                {n: np.array(v, np.float32) for n, v in HALVES.items()},
                rebatches=False,
            ),
        ),
        large=Sample("large", {}, {}, ints(start=0, limit=300000, delta=1)),
        refusals=(Refusal("delta not 0", {}, {}, ints(start=0, limit=3, delta=0)),),
    ),
    OpInfo(
        "ZEROS_LIKE",
        zeros_like,
        samples=(Sample("floats", X), Sample("integers", {"x": np.arange(4, dtype=np.int32)})),
        large=Sample("large", {"x": (8, 256, 256)}),
    ),
    OpInfo(
        "ADD_N",
        add_n,
        samples=(
            Sample("three", {"xs0": (2, 3), "xs1": (2, 3), "xs2": (2, 3)}),
            Sample("one", {"xs0": (2, 3)}),
        ),
        large=Sample("large", {"xs0": (8, 128, 256), "xs1": (8, 128, 256)}),
        refusals=(Refusal("one shape", {"xs0": (2, 3), "xs1": (2, 1)}),),
    ),
    OpInfo(
        "SELECT",
        select,
        samples=(
            pick("each value", (2, 3), (2, 3), (2, 3)),
            pick("each row", (4,), (4, 3), (4, 3)),
            pick("one for all", (1,), (2, 3), (2, 3), constants=("c",)),
            pick("a single value", (), (2,), (2,), constants=("c",)),
        ),
        large=pick("large", (8, 128, 256), (8, 128, 256), (8, 128, 256)),
        refusals=(
            Refusal("along their first", {"c": flags(2), "a": (3, 2), "b": (3, 2)}),
            Refusal("along their first", {"c": flags(3), "a": (3, 2), "b": (3, 1)}),
            Refusal("must be bool", {"c": (3,), "a": (3,), "b": (3,)}),
        ),
    ),
    OpInfo(
        "SELECT_V2",
        select_v2,
        samples=(
            pick("each value", (2, 3), (2, 3), (2, 3)),
            pick("stretched", (2, 1, 3), (2, 4, 1), (2, 1, 1)),
            pick("a constant", (2, 3), (2, 3), (), constants=("b",)),
            pick("a mask for all", (4, 4), (2, 4, 4), (1,), constants=("c", "b")),
            pick("rows meet", (1,), (2, 3), (2, 1), mixes=True),
        ),
        large=pick("large", (8, 128, 1), (8, 128, 256), (8, 1, 256)),
        refusals=(
            Refusal("match from the last", {"c": flags(2), "a": (3,), "b": (3,)}),
            Refusal("must be bool", {"c": (3,), "a": (3,), "b": (3,)}),
        ),
    ),
    OpInfo(
        "MIRROR_PAD",
        mirror,
        samples=(
            Sample("reflect", {"x": (2, 4, 3)}, {}, ints(paddings=[[0, 0], [3, 1], [1, 2]])),
            Sample(
                "symmetric", {"x": (2, 4, 3)}, {"mode": 1}, ints(paddings=[[0, 0], [4, 1], [0, 3]])
            ),
            Sample("nothing", {"x": (2, 3)}, {}, ints(paddings=[[0, 0], [0, 0]])),
            Sample("the batch", {"x": (3, 2)}, {}, ints(paddings=[[1, 2], [1, 0]]), mixes=True),
        ),
        large=Sample(
            "large", {"x": (8, 62, 62, 16)}, {}, ints(paddings=[[0, 0], [1, 1], [1, 1], [0, 0]])
        ),
        refusals=(
            Refusal("what there is to mirror", {"x": (3,)}, {}, ints(paddings=[[3, 0]])),
            Refusal("what there is to mirror", {"x": (3,)}, {"mode": 1}, ints(paddings=[[0, 4]])),
            Refusal("for each axis", {"x": (3, 2)}, {}, ints(paddings=[[0, 1]])),
        ),
    ),
)
