"""Operators that only move values: block by block, in reverse, repeated, mirrored."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from odt.kernels.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample


def space_to_depth(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """Pixel by pixel, from tf.nn.space_to_depth's definition."""
    x, b = i["x"], o["block_size"]
    n, h, w, c = x.shape
    y = np.zeros((n, h // b, w // b, b * b * c), x.dtype)
    for r, k, ch in np.ndindex(h, w, c):
        y[:, r // b, k // b, ((r % b) * b + k % b) * c + ch] = x[:, r, k, ch]
    return {"y": y}


def depth_to_space(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, b = i["x"], o["block_size"]
    n, h, w, c = x.shape
    c //= b * b
    y = np.zeros((n, h * b, w * b, c), x.dtype)
    for r, k, ch in np.ndindex(h * b, w * b, c):
        y[:, r, k, ch] = x[:, r // b, k // b, ((r % b) * b + k % b) * c + ch]
    return {"y": y}


def space_to_batch(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """tf.space_to_batch_nd: pad; image (block offset) · N + n holds the pixels at that offset."""
    x, block, edges = i["x"], o["block"], o["edges"]
    rest = x.ndim - 1 - len(block)
    x = np.pad(x, [(0, 0), *map(tuple, edges), *[(0, 0)] * rest])
    at = product(*map(range, block))
    images = [
        x[(slice(None), *(slice(k, None, b) for k, b in zip(offset, block, strict=True)))]
        for offset in at
    ]
    return {"y": np.concatenate(images)}


def batch_to_space(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, block, edges = i["x"], o["block"], o["edges"]
    n = x.shape[0] // int(np.prod(block))
    space = [s * b for s, b in zip(x.shape[1:], block, strict=False)]
    y = np.zeros((n, *space, *x.shape[1 + len(block) :]), x.dtype)
    for number, offset in enumerate(product(*map(range, block))):
        where = (slice(k, None, b) for k, b in zip(offset, block, strict=True))
        y[(slice(None), *where)] = x[number * n : (number + 1) * n]
    kept = (slice(lo, s - hi) for s, (lo, hi) in zip(space, edges, strict=True))
    return {"y": y[(slice(None), *kept)]}


def reverse(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.flip(i["x"], tuple(o["axes"]))}


def blocks(block: tuple[int, ...], *edges: tuple[int, int]) -> dict[str, Any]:
    return {"block": np.array(block, np.int32), "edges": np.array(edges, np.int32)}


def axes(*which: int) -> dict[str, Any]:
    return {"axes": np.array(which, np.int32)}


IMAGE = {"x": (2, 4, 6, 3)}
NONE = (0, 0)
ROWS: tuple[OpInfo, ...] = (
    OpInfo(
        "SPACE_TO_DEPTH",
        space_to_depth,
        samples=(
            Sample("two", IMAGE, {"block_size": 2}),
            Sample("three", {"x": (1, 3, 6, 2)}, {"block_size": 3}),
            Sample("one", IMAGE, {"block_size": 1}),
        ),
        large=Sample("large", {"x": (4, 64, 64, 32)}, {"block_size": 2}),
        refusals=(
            Refusal("must divide H and W", {"x": (1, 3, 4, 1)}, {"block_size": 2}),
            Refusal("(N, H, W, C)", {"x": (4, 4)}, {"block_size": 2}),
        ),
    ),
    OpInfo(
        "DEPTH_TO_SPACE",
        depth_to_space,
        samples=(
            Sample("two", {"x": (2, 2, 3, 12)}, {"block_size": 2}),
            Sample("three", {"x": (1, 1, 2, 9)}, {"block_size": 3}),
        ),
        large=Sample("large", {"x": (4, 32, 32, 128)}, {"block_size": 2}),
        refusals=(Refusal("must divide C", {"x": (1, 2, 2, 6)}, {"block_size": 2}),),
    ),
    OpInfo(
        "SPACE_TO_BATCH_ND",
        space_to_batch,
        samples=(
            Sample("padded", {"x": (2, 3, 5, 2)}, {}, blocks((2, 3), (0, 1), (1, 0)), mixes=True),
            Sample("even", {"x": (2, 4, 4, 1)}, {}, blocks((2, 2), NONE, NONE), mixes=True),
            Sample("wide", {"x": (1, 2, 2, 1)}, {}, blocks((4, 4), (1, 1), (2, 0)), mixes=True),
            Sample("one axis", {"x": (2, 4, 3)}, {}, blocks((2,), NONE), mixes=True),
            Sample("pads only", {"x": (2, 3, 3, 1)}, {}, blocks((1, 1), (1, 0), (0, 2))),
        ),
        large=Sample("large", {"x": (4, 62, 64, 32)}, {}, blocks((2, 2), (1, 1), NONE), mixes=True),
        refusals=(
            Refusal("must divide the padded", {"x": (1, 3, 3, 1)}, {}, blocks((2, 2), NONE, NONE)),
            Refusal("two for each axis", {"x": (1, 3, 3, 1)}, {}, blocks((2, 2), NONE)),
            Refusal("1 or more", {"x": (1, 3, 3, 1)}, {}, blocks((0, 2), NONE, NONE)),
        ),
    ),
    OpInfo(
        "BATCH_TO_SPACE_ND",
        batch_to_space,
        samples=(
            Sample("cropped", {"x": (12, 2, 2, 2)}, {}, blocks((2, 3), (0, 1), (2, 1)), mixes=True),
            Sample("even", {"x": (4, 2, 2, 1)}, {}, blocks((2, 2), NONE, NONE), mixes=True),
            Sample("one axis", {"x": (4, 2, 3)}, {}, blocks((2,), NONE), mixes=True),
        ),
        large=Sample(
            "large", {"x": (16, 32, 32, 32)}, {}, blocks((2, 2), (1, 1), NONE), mixes=True
        ),
        refusals=(
            Refusal("leave something", {"x": (3, 2, 2, 1)}, {}, blocks((2, 2), NONE, NONE)),
            Refusal("leave something", {"x": (4, 1, 2, 1)}, {}, blocks((2, 2), (1, 1), NONE)),
        ),
    ),
    OpInfo(
        "REVERSE_V2",
        reverse,
        samples=(
            Sample("one axis", {"x": (2, 3)}, {}, axes(1)),
            Sample("two", {"x": (2, 3, 4)}, {}, axes(-1, 1)),
            Sample("none", {"x": (2, 3)}, {}, axes()),
            Sample("the batch", {"x": (3, 2)}, {}, axes(0), mixes=True),
        ),
        large=Sample("large", {"x": (8, 256, 256)}, {}, axes(1, 2)),
        refusals=(Refusal("different ones of x", {"x": (2, 3)}, {}, axes(1, -1)),),
    ),
)
