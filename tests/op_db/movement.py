"""Operators that move, cut and join: no arithmetic but sums in the gradients."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from odt.kernels.opdef import Array, TensorSpec
from op_db import OpInfo, Options, Refusal, Sample

INT32 = np.dtype(np.int32)
INT64 = np.dtype(np.int64)
NUMBERS = np.arange(6, dtype=np.int32).reshape(2, 3)


def pad(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    value = float(i["value"].reshape(())) if "value" in i else 0.0
    return {"y": np.pad(i["x"], o["paddings"], constant_values=value).astype(i["x"].dtype)}


def squeeze(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x = i["x"]
    axes = tuple(o.get("squeeze_dims", ()))
    return {"y": np.squeeze(x, axes or tuple(k for k in range(1, x.ndim) if x.shape[k] == 1))}


def expand_dims(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.expand_dims(i["x"], int(np.ravel(o["axis"])[0]))}


def shape(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.array(i["x"].shape)}


def pack(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.stack([i[f"xs{k}"] for k in range(len(i))], o.get("axis", 0))}


def walk(size: int, begin: int | None, end: int | None, stride: int) -> Iterator[int]:
    """Positions that tf.strided_slice visits along one axis; None: an open end."""

    def inside(v: int) -> int:
        v = v + size if v < 0 else v
        return min(max(v, 0), size) if stride > 0 else min(max(v, -1), size - 1)

    at = inside(begin) if begin is not None else (0 if stride > 0 else size - 1)
    last = inside(end) if end is not None else (size if stride > 0 else -1)
    while (at < last) if stride > 0 else (at > last):
        yield at
        at += stride


def strided_slice(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """Entry by entry, as the documentation of tf.strided_slice explains the masks."""
    x, y = i["x"], i["x"]
    begin, end, strides = (list(map(int, o[n])) for n in ("begin", "end", "strides"))

    def has(mask: str, k: int) -> bool:
        return bool(o.get(f"{mask}_mask", 0) >> k & 1)

    new = [has("new_axis", k) and not has("ellipsis", k) for k in range(len(begin))]
    covered = sum(not new[k] and not has("ellipsis", k) for k in range(len(begin)))
    axis, dropped = 0, []
    for k in range(len(begin)):
        if has("ellipsis", k):
            axis += x.ndim - covered
        elif new[k]:
            y = np.expand_dims(y, axis)
            axis += 1
        elif has("shrink_axis", k):
            y = np.take(y, [begin[k] % y.shape[axis]], axis)
            dropped.append(axis)
            axis += 1
        else:
            first = None if has("begin", k) else begin[k]
            last = None if has("end", k) else end[k]
            y = np.take(y, list(walk(y.shape[axis], first, last, strides[k])), axis)
            axis += 1
    return {"y": np.squeeze(y, tuple(dropped))}


def padded(*pairs: tuple[int, int]) -> dict[str, Any]:
    return {"paddings": np.array(pairs, np.int32)}


def at(axis: int) -> dict[str, Any]:
    return {"axis": np.array(axis, np.int32)}


def ends(begin: tuple[int, ...], end: tuple[int, ...], strides: tuple[int, ...]) -> dict[str, Any]:
    names = ("begin", "end", "strides")
    return {n: np.array(v, np.int32) for n, v in zip(names, (begin, end, strides), strict=True)}


def parts(count: int, *shape: int) -> dict[str, tuple[int, ...]]:
    return {f"xs{k}": shape for k in range(count)}


X = (2, 3, 4)
PAD_SAMPLES = (
    ("sides", (2, 3, 2), ((0, 0), (1, 2), (0, 1)), False),
    ("nothing", (2, 3), ((0, 0), (0, 0)), False),
    ("the batch", (2, 3), ((1, 0), (0, 2)), True),
    ("rank 4", (1, 2, 2, 1), ((0, 0), (1, 1), (2, 0), (0, 0)), False),
)
PAD_REFUSALS = (
    ("for each axis", (2, 3), ((0, 0),)),
    ("0 or more", (2, 3), ((0, 0), (-1, 0))),
)

ROWS: tuple[OpInfo, ...] = (
    OpInfo(
        "PAD",
        pad,
        samples=tuple(
            Sample(label, {"x": x}, {}, padded(*pads), mixes=mixes)
            for label, x, pads, mixes in PAD_SAMPLES
        ),
        large=Sample("large", {"x": (8, 64, 64, 16)}, {}, padded((0, 0), (1, 1), (1, 1), (0, 0))),
        refusals=(
            *(Refusal(words, {"x": x}, {}, padded(*pads)) for words, x, pads in PAD_REFUSALS),
            Refusal("(rank, 2)", {"x": (2,)}, {}, {"paddings": np.zeros(2, np.int32)}),
        ),
    ),
    OpInfo(
        "PADV2",
        pad,
        samples=tuple(
            Sample(
                label,
                {"x": x, "value": np.array(shape * [0.7]).reshape(shape * (1,))},
                {},
                padded(*pads),
                ("value",),
                mixes,
            )
            for label, x, pads, mixes in PAD_SAMPLES
            for shape in (1,)
        ),
        large=Sample(
            "large",
            {"x": (8, 64, 64, 16), "value": ()},
            {},
            padded((0, 0), (1, 1), (1, 1), (0, 0)),
        ),
        refusals=(
            *(
                Refusal(words, {"x": x, "value": (1,)}, {}, padded(*pads))
                for words, x, pads in PAD_REFUSALS
            ),
            Refusal("value must be one", {"x": (2,), "value": (2,)}, {}, padded((0, 0))),
        ),
    ),
    OpInfo(
        "SQUEEZE",
        squeeze,
        samples=(
            Sample("named", {"x": (2, 1, 3, 1)}, {"squeeze_dims": (1, 3)}),
            Sample("from the end", {"x": (2, 1, 3, 1)}, {"squeeze_dims": (-1,)}),
            Sample("all but the batch", {"x": (1, 1, 3, 1)}),
            Sample("the batch", {"x": (1, 3)}, {"squeeze_dims": (0,)}, rebatches=False),
        ),
        large=Sample("large", {"x": (256, 1, 1, 1024)}, {"squeeze_dims": (1, 2)}),
        refusals=(
            Refusal("axes of length 1", {"x": (2, 1, 3)}, {"squeeze_dims": (2,)}),
            Refusal("axes of length 1", {"x": (2, 1)}, {"squeeze_dims": (2,)}),
        ),
    ),
    OpInfo(
        "EXPAND_DIMS",
        expand_dims,
        samples=(
            Sample("inside", {"x": (2, 3)}, {}, at(1)),
            Sample("at the end", {"x": (2, 3)}, {}, at(-1)),
            Sample("an array of one", {"x": (2, 3)}, {}, {"axis": np.array([2], np.int32)}),
            Sample("before the batch", {"x": (2, 3)}, {}, at(0), mixes=True),
            Sample("before the batch, from the end", {"x": (2, 3)}, {}, at(-3), mixes=True),
        ),
        large=Sample("large", {"x": (256, 1024)}, {}, at(1)),
        refusals=(
            Refusal("axis must be within", {"x": (2, 3)}, {}, at(3)),
            Refusal("axis must be within", {"x": (2, 3)}, {}, at(-4)),
            Refusal("one number", {"x": (2,)}, {}, {"axis": np.zeros(2, np.int32)}),
        ),
    ),
    OpInfo(
        "SHAPE",
        shape,
        samples=(
            Sample("rank 3", {"x": (2, 3, 4)}, {"out_type": 2}, rebatches=False),
            Sample("64 bits", {"x": (2, 3)}, {"out_type": 4}, rebatches=False),
        ),
        large=Sample("large", {"x": (512, 1024)}),
        refusals=(Refusal("out_type", {"x": (2,)}, {"out_type": 9}),),
    ),
    OpInfo(
        "STRIDED_SLICE",
        strided_slice,
        samples=(
            Sample("a part", {"x": X}, {}, ends((0, 1, 0), (2, 3, 4), (1, 1, 2))),
            Sample(
                "the batch cut", {"x": X}, {}, ends((1, 0, 0), (2, 3, 4), (1, 1, 1)), mixes=True
            ),
            Sample("the batch of one", {"x": (1, 4)}, {}, ends((0, 1), (1, 3), (1, 1))),
            Sample("backwards", {"x": X}, {}, ends((0, 2, -1), (2, 0, -5), (1, -1, -2))),
            Sample("counted from the end", {"x": X}, {}, ends((0, -2), (2, -1), (1, 1))),
            Sample("beyond the ends", {"x": X}, {}, ends((0, -9), (9, 9), (1, 1))),
            Sample("the batch backwards", {"x": X}, {}, ends((1,), (-3,), (-1,)), mixes=True),
            Sample(
                "open ends",
                {"x": X},
                {"begin_mask": 3, "end_mask": 5},
                ends((7, 7, 1), (0, 2, 0), (1, 1, 1)),
            ),
            Sample(
                "open ends backwards",
                {"x": X},
                {"begin_mask": 6, "end_mask": 7},
                ends((0, 0, 0), (0, 0, 0), (1, -1, -3)),
            ),
            Sample(
                "one index",
                {"x": X},
                {"shrink_axis_mask": 6, "end_mask": 1},
                ends((0, 1, -1), (0, 2, 0), (1, 1, 1)),
            ),
            Sample(
                "one sample",
                {"x": X},
                {"shrink_axis_mask": 1},
                ends((1,), (2,), (1,)),
                mixes=True,
            ),
            Sample(
                "new axis",
                {"x": X},
                {"new_axis_mask": 2, "begin_mask": 5, "end_mask": 5},
                ends((0, 0, 0), (0, 0, 0), (1, 1, 2)),
            ),
            Sample(
                "new first axis",
                {"x": X},
                {"new_axis_mask": 1},
                ends((0,), (1,), (1,)),
                mixes=True,
            ),
            Sample(
                "ellipsis",
                {"x": X},
                {"ellipsis_mask": 1},
                ends((0, 1), (0, 3), (1, 1)),
            ),
            Sample(
                "ellipsis, new axis, one index",
                {"x": X},
                {"ellipsis_mask": 2, "new_axis_mask": 4, "shrink_axis_mask": 8, "end_mask": 1},
                ends((0, 0, 0, 2), (0, 0, 0, 3), (1, 1, 1, 1)),
            ),
            Sample(
                "an ellipsis of no axis",
                {"x": (2, 3)},
                {"ellipsis_mask": 2, "end_mask": 1},
                ends((0, 0, 1), (0, 0, 2), (1, 1, 1)),
            ),
            Sample("nothing left", {"x": X}, {}, ends((0, 2), (2, 1), (1, 1))),
            Sample(
                "a number of a shape",
                {"x": np.array([7, 8, 9], np.int32)},
                {"shrink_axis_mask": 1},
                ends((1,), (2,), (1,)),
                mixes=True,
            ),
        ),
        large=Sample("large", {"x": (256, 32, 64)}, {}, ends((0, 1, 0), (256, 31, 64), (1, 1, 2))),
        refusals=(
            Refusal("no stride 0", {"x": X}, {}, ends((0,), (1,), (0,))),
            Refusal("as long as each other", {"x": X}, {}, ends((0,), (1, 2), (1,))),
            Refusal("an entry for each axis", {"x": (2,)}, {}, ends((0, 0), (1, 1), (1, 1))),
            Refusal(
                "begin must be within", {"x": X}, {"shrink_axis_mask": 1}, ends((2,), (3,), (1,))
            ),
            Refusal("offset", {"x": X}, {"offset": True}, ends((0,), (1,), (1,))),
        ),
    ),
    OpInfo(
        "PACK",
        pack,
        samples=(
            Sample("inside", parts(3, 2, 3), {"axis": 1}),
            Sample("at the end", parts(2, 2, 3), {"axis": -1}),
            Sample("one", parts(1, 2, 3), {"axis": 2}),
            Sample("before the batch", parts(2, 2, 3), {"axis": 0}, mixes=True),
            Sample("before the batch, from the end", parts(2, 2, 3), {"axis": -3}, mixes=True),
            Sample("more than ten", parts(12, 2), {"axis": 1}),
            Sample(
                "scalars",
                {"xs0": np.array(1, np.int32), "xs1": np.array(5, np.int32)},
                rebatches=False,
            ),
            Sample("integers", {"xs0": NUMBERS, "xs1": NUMBERS + 1}, {"axis": 1}),
        ),
        large=Sample("large", parts(3, 256, 512), {"axis": 1}),
        refusals=(
            Refusal("alike", {"xs0": (2, 3), "xs1": (2, 4)}),
            Refusal("alike", {"xs0": (2, 3), "xs1": TensorSpec((2, 3), INT32)}),
            Refusal("axis must be within", parts(2, 2, 3), {"axis": 3}),
            Refusal("but got none", {}),
        ),
    ),
)
