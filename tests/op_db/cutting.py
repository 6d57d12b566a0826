"""Operators that cut along an axis or join, and TRANSPOSE."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.kernels.opdef import Array, TensorSpec
from op_db import OpInfo, Options, Refusal, Sample

INT32 = np.dtype(np.int32)
NUMBERS = np.arange(12, dtype=np.int32).reshape(3, 4)
X = (2, 3, 4)
LARGE = {"x": (64, 64, 128)}


def concatenation(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.concatenate([i[f"xs{k}"] for k in range(len(i))], o["axis"])}


def split(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    parts = np.split(i["x"], o["num_splits"], int(np.ravel(o["axis"])[0]))
    return {f"ys{k}": part for k, part in enumerate(parts)}


def split_v(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, axis, at = i["x"], int(o["axis"]), 0
    found = {}
    for k, n in enumerate(o["sizes"]):
        n = x.shape[axis] - sum(m for m in o["sizes"] if m >= 0) if n < 0 else n
        found[f"ys{k}"] = np.take(x, range(at, at + n), axis)
        at += n
    return found


def unpack(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {f"ys{k}": np.take(i["x"], k, o.get("axis", 0)) for k in range(o["num"])}


def transpose(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    letters = "abcdefgh"[: i["x"].ndim]
    return {"y": np.einsum(f"{letters}->{''.join(letters[p] for p in o['perm'])}", i["x"])}


def cut(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    y = i["x"]
    for axis, (begin, size) in enumerate(zip(o["begin"], o["size"], strict=True)):
        end = y.shape[axis] if size == -1 else begin + size
        y = np.take(y, range(begin, end), axis)
    return {"y": y}


def statics(**values: Any) -> dict[str, Any]:
    return {n: np.array(v, np.int32) for n, v in values.items()}


def joined(*shapes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {f"xs{k}": shape for k, shape in enumerate(shapes)}


ROWS: tuple[OpInfo, ...] = (
    OpInfo(
        "CONCATENATION",
        concatenation,
        samples=(
            Sample("inside", joined((2, 3, 2), (2, 1, 2), (2, 2, 2)), {"axis": 1}),
            Sample("last axis", joined((2, 3), (2, 1)), {"axis": -1}),
            Sample("one", joined((2, 3)), {"axis": 1}),
            Sample("samples", joined((2, 3), (1, 3)), {"axis": 0}, mixes=True),
            Sample("nothing among them", joined((2, 3), (2, 0)), {"axis": 1}),
            Sample("more than ten", joined(*[(2, 1)] * 12), {"axis": 1}),
            Sample("integers", {"xs0": NUMBERS, "xs1": NUMBERS[:, :2]}, {"axis": 1}),
        ),
        large=Sample("large", joined((64, 64, 64), (64, 64, 32)), {"axis": 2}),
        refusals=(
            Refusal("alike but for axis", joined((2, 3), (3, 3)), {"axis": 1}),
            Refusal("alike but for axis", joined((2, 3), (2, 3, 1)), {"axis": 1}),
            Refusal("alike", {"xs0": (2, 3), "xs1": TensorSpec((2, 3), INT32)}, {"axis": 1}),
            Refusal("axis must be within", joined((2, 3)), {"axis": 2}),
            Refusal("but got none", {}, {"axis": 0}),
        ),
    ),
    OpInfo(
        "SPLIT",
        split,
        samples=(
            Sample("inside", {"x": (2, 6, 2)}, {"num_splits": 3}, statics(axis=1)),
            Sample("last axis", {"x": (2, 4)}, {"num_splits": 2}, statics(axis=[-1])),
            Sample("one", {"x": (2, 4)}, {"num_splits": 1}, statics(axis=1)),
            Sample("samples", {"x": (4, 2)}, {"num_splits": 2}, statics(axis=0), mixes=True),
            Sample("integers", {"x": NUMBERS}, {"num_splits": 2}, statics(axis=1)),
        ),
        large=Sample("large", LARGE, {"num_splits": 2}, statics(axis=2)),
        refusals=(
            Refusal("must divide", {"x": (2, 5)}, {"num_splits": 2}, statics(axis=1)),
            Refusal("must divide", {"x": (2, 5)}, {"num_splits": 0}, statics(axis=1)),
            Refusal("axis must be within", {"x": (2, 5)}, {"num_splits": 1}, statics(axis=2)),
            Refusal("one number", {"x": (2, 5)}, {"num_splits": 1}, statics(axis=[0, 1])),
        ),
    ),
    OpInfo(
        "SPLIT_V",
        split_v,
        samples=(
            Sample("inside", {"x": (2, 6, 2)}, {}, statics(sizes=[1, 3, 2], axis=1)),
            Sample("what is left", {"x": (2, 6)}, {}, statics(sizes=[1, -1, 2], axis=-1)),
            Sample("nothing", {"x": (2, 3)}, {}, statics(sizes=[3, 0], axis=1)),
            Sample("samples", {"x": (3, 2)}, {}, statics(sizes=[1, 2], axis=0), rebatches=False),
            Sample("integers", {"x": NUMBERS}, {}, statics(sizes=[3, 1], axis=1)),
        ),
        large=Sample("large", LARGE, {}, statics(sizes=[28, 100], axis=2)),
        refusals=(
            Refusal("must make up", {"x": (2, 5)}, {}, statics(sizes=[2, 2], axis=1)),
            Refusal("must make up", {"x": (2, 5)}, {}, statics(sizes=[-1, -1], axis=1)),
            Refusal("must make up", {"x": (2, 5)}, {}, statics(sizes=[6, -1], axis=1)),
            Refusal("must make up", {"x": (2, 5)}, {}, statics(sizes=[7, -2], axis=1)),
            Refusal("axis must be within", {"x": (2, 5)}, {}, statics(sizes=[5], axis=2)),
            Refusal("one number", {"x": (2, 5)}, {}, statics(sizes=[5], axis=[0, 1])),
        ),
    ),
    OpInfo(
        "UNPACK",
        unpack,
        samples=(
            Sample("inside", {"x": X}, {"axis": 1, "num": 3}),
            Sample("last axis", {"x": X}, {"axis": -1, "num": 4}),
            Sample("samples", {"x": (2, 3)}, {"num": 2}, rebatches=False),
            Sample("more than ten", {"x": (2, 12)}, {"axis": 1, "num": 12}),
            Sample("integers", {"x": NUMBERS}, {"axis": 1, "num": 4}),
        ),
        large=Sample("large", {"x": (256, 4, 512)}, {"axis": 1, "num": 4}),
        refusals=(
            Refusal("num must be", {"x": X}, {"axis": 1, "num": 2}),
            Refusal("axis must be within", {"x": X}, {"axis": 3, "num": 2}),
        ),
    ),
    OpInfo(
        "TRANSPOSE",
        transpose,
        samples=(
            Sample("last two", {"x": X}, {}, statics(perm=[0, 2, 1])),
            Sample(
                "all but the batch, around", {"x": (2, 2, 3, 4)}, {}, statics(perm=[0, 3, 1, 2])
            ),
            Sample("nothing", {"x": X}, {}, statics(perm=[0, 1, 2])),
            Sample("only ones", {"x": (2, 1, 3, 1)}, {}, statics(perm=[0, 3, 2, 1])),
            Sample("the batch", {"x": X}, {}, statics(perm=[1, 0, 2]), mixes=True),
            Sample("around", {"x": X}, {}, statics(perm=[2, 0, 1]), mixes=True),
            Sample("integers", {"x": NUMBERS}, {}, statics(perm=[1, 0]), mixes=True),
            *(
                Sample(f"{rows} by {columns}", {"x": x}, {}, statics(perm=[0, 2, 1]))
                for rows, columns in ((16, 16), (17, 32), (33, 18), (3, 40), (40, 3))
                for x in ((1, rows, columns), (2, rows, columns))
            ),
            Sample("ones between", {"x": (2, 5, 1, 4, 1)}, {}, statics(perm=[0, 3, 4, 2, 1])),
            Sample("rows of four", {"x": (2, 5, 3, 4)}, {}, statics(perm=[0, 2, 1, 3])),
            Sample("rows of pairs", {"x": (1, 18, 3, 2, 20)}, {}, statics(perm=[0, 2, 1, 3, 4])),
            Sample("backwards", {"x": (2, 3, 5, 4)}, {}, statics(perm=[0, 3, 2, 1])),
            Sample("five", {"x": (2, 3, 2, 5, 4)}, {}, statics(perm=[0, 4, 2, 1, 3])),
            Sample(
                "eight", {"x": (1, 2, 3, 2, 2, 2, 3, 2)}, {}, statics(perm=[0, 7, 6, 5, 4, 3, 2, 1])
            ),
        ),
        large=Sample("large", LARGE, {}, statics(perm=[0, 2, 1])),
        also_large=(
            Sample("view", {"x": (64, 1, 8192)}, {}, statics(perm=[0, 2, 1])),
            Sample("one matrix", {"x": (1, 723, 601)}, {}, statics(perm=[0, 2, 1])),
            Sample("heads", {"x": (9, 101, 8, 60)}, {}, statics(perm=[0, 2, 1, 3])),
        ),
        refusals=(
            Refusal("each axis of x once", {"x": X}, {}, statics(perm=[0, 1])),
            Refusal("each axis of x once", {"x": X}, {}, statics(perm=[0, 1, 1])),
            Refusal("each axis of x once", {"x": X}, {}, statics(perm=[0, 1, 3])),
        ),
    ),
    OpInfo(
        "SLICE",
        cut,
        samples=(
            Sample("a part", {"x": (1, 3, 4)}, {}, statics(begin=[0, 1, 0], size=[1, 2, 3])),
            Sample("to the end", {"x": X}, {}, statics(begin=[0, 1, 2], size=[-1, -1, -1])),
            Sample("nothing", {"x": X}, {}, statics(begin=[0, 3, 0], size=[2, 0, 4])),
            Sample("samples", {"x": X}, {}, statics(begin=[1, 0, 0], size=[1, 3, 4]), mixes=True),
            Sample("the first", {"x": X}, {}, statics(begin=[0, 0, 0], size=[1, 3, 4]), mixes=True),
            Sample("integers", {"x": NUMBERS}, {}, statics(begin=[0, 2], size=[-1, 1])),
        ),
        large=Sample("large", LARGE, {}, statics(begin=[0, 1, 5], size=[64, 60, 99])),
        refusals=(
            Refusal("inside x", {"x": (2, 3)}, {}, statics(begin=[0, 2], size=[2, 2])),
            Refusal("inside x", {"x": (2, 3)}, {}, statics(begin=[0, -1], size=[2, 1])),
            Refusal("inside x", {"x": (2, 3)}, {}, statics(begin=[0, 4], size=[2, -1])),
            Refusal("inside x", {"x": (2, 3)}, {}, statics(begin=[0, 2], size=[2, -2])),
            Refusal("inside x", {"x": (2, 3)}, {}, statics(begin=[0], size=[2])),
        ),
    ),
)
