"""CUSTOM:TransformLandmarks: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.flex_maps import flex_map


def transform_landmarks(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """Maps point by point, as MediaPipe's kernel does."""
    x, m = i["x"], i["m"]
    size, scale = o.get("numbers", x.shape[-1]), o.get("factor", 1)
    y = x.copy()
    for n, *at, k in np.ndindex(*x.shape[:-1], x.shape[-1] // size):
        point = (n, *at, slice(k * size, k * size + 2))
        a, b = x[point]
        moved = [row[0] * a + row[1] * b + row[3] * scale for row in m[n, :2]]
        y[point] = moved
    return {"y": y}


def made(label: str, x: tuple[int, ...], options: Options | None = None) -> Sample:
    return Sample(label, {"x": x, "m": (x[0], 4, 4)}, options or {"custom_options": b""})


def version_1(numbers: int, factor: float) -> Options:
    return {**flex_map(dimensions=numbers, scale=factor), "numbers": numbers, "factor": factor}


POINTS = {"x": (2, 5, 3), "m": (2, 4, 4)}
INFO = OpInfo(
    "CUSTOM:TransformLandmarks",
    transform_landmarks,
    samples=(
        made("2 numbers", (2, 5, 2)),
        made("3 numbers", (1, 4, 3)),
        made("version 1", (2, 1, 1, 12), version_1(3, 4.0)),
        made("version 1, 2 numbers", (2, 2, 1, 6), version_1(2, 0.5)),
        made("version 1, defaults", (1, 1, 1, 6), {**flex_map(other=1), "numbers": 3}),
    ),
    large=made("large", (70, 1300, 3)),
    refusals=(
        Refusal("x must be", {**POINTS, "x": (2, 5, 4)}),
        Refusal("x must be", {**POINTS, "x": (2, 5)}),
        Refusal("x must be", {**POINTS, "x": ()}),
        Refusal("x must be", {**POINTS, "x": (2, 1, 1, 8)}, flex_map(dimensions=3, scale=1)),
        Refusal("x must be", {**POINTS, "x": (2, 1, 1, 8)}, flex_map(dimensions=4, scale=1)),
        Refusal("m must be", {**POINTS, "m": (1, 4, 4)}),
        Refusal("m must be", {**POINTS, "m": (2, 3, 4)}),
    ),
    loose=4,
)
