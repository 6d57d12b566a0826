"""CUSTOM:TransformTensorBilinear: reference and samples."""

from collections.abc import Mapping
from math import floor

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.flex_maps import flex_map


def pixel(image: Array, row: int, column: int) -> Array:
    """Returns a pixel, 0 beyond the edge."""
    height, width, channels = image.shape
    inside = 0 <= row < height and 0 <= column < width
    return image[row, column] if inside else np.zeros(channels, image.dtype)


def transform(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """Interpolates pixel by pixel, as MediaPipe's kernels do."""
    x, m = i["x"], i["m"]
    height, width = o["size"]
    y = np.zeros((len(x), height, width, x.shape[3]), x.dtype)
    for n, p, q in np.ndindex(len(x), height, width):
        at = []
        for row in m[n, :2]:
            corrected = row[3] + (0 if o["version"] == 1 else (row[0] + row[1] - 1) / 2)
            at.append(row[0] * q + row[1] * p + corrected)
        if 0 <= at[0] <= x.shape[2] - 1 and 0 <= at[1] <= x.shape[1] - 1:
            left, top = floor(at[0]), floor(at[1])
            right, down = at[0] - left, at[1] - top
            upper = (1 - right) * pixel(x[n], top, left) + right * pixel(x[n], top, left + 1)
            lower = (1 - right) * pixel(x[n], top + 1, left) + right * pixel(
                x[n], top + 1, left + 1
            )
            y[n, p, q] = (1 - down) * upper + down * lower
    return {"y": y}


def version_2(height: int, width: int) -> Options:
    made = flex_map(output_height=height, output_width=width)
    return {**made, "size": (height, width), "version": 2}


def version_1(height: int, width: int) -> Options:
    return {**flex_map(output_size=[height, width]), "size": (height, width), "version": 1}


def matrices(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Turns and shears; some positions are outside of images of 3 × 3 and more."""
    m = rng.uniform(-0.1, 0.1, shape)
    m[:, 0, 0], m[:, 1, 1] = 0.9, 0.8
    m[:, :2, 3] += 0.3
    return m


def aligned(count: int) -> Array:
    """Matrices whose positions are not close to pixels, where the gradient jumps."""
    m = np.zeros((count, 4, 4))
    m[::2, 0, [0, 3]] = 1, -1.7
    m[::2, 1, [1, 3]] = 1, 0.4
    m[1::2, 0, [1, 3]] = 1, 0.7
    m[1::2, 1, [0, 3]] = -1, 20.2
    return m


def made(label: str, o: Options, *shape: int) -> Sample:
    return Sample(label, {"x": shape, "m": (shape[0], 4, 4)}, o)


IMAGE = {"x": (2, 4, 4, 3), "m": (2, 4, 4)}
EDGES = np.array([[[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]]], np.float64)
INFO = OpInfo(
    "CUSTOM:TransformTensorBilinear",
    transform,
    samples=(
        made("version 2", version_2(4, 5), 2, 4, 3, 2),
        made("larger", version_2(6, 5), 1, 4, 5, 3),
        made("version 1", version_1(3, 4), 2, 5, 4, 2),
        made("one row", version_2(2, 3), 1, 1, 4, 2),
        Sample("one pixel", {"x": (1, 1, 1, 3), "m": 0 * EDGES}, version_1(2, 2)),
    ),
    large=Sample("large", {"x": (6, 24, 24, 32), "m": aligned(6)}, version_2(20, 22)),
    refusals=(
        Refusal("x must be", {**IMAGE, "x": (2, 4, 4)}, version_2(3, 3)),
        Refusal("x must be", {**IMAGE, "x": (2, 0, 4, 3)}, version_2(3, 3)),
        Refusal("x must be", {**IMAGE, "x": (2, 4, 4, 0)}, version_2(3, 3)),
        Refusal("m must be", {**IMAGE, "m": (1, 4, 4)}, version_2(3, 3)),
        Refusal("m must be", {**IMAGE, "m": (2, 2, 4)}, version_2(3, 3)),
        Refusal("1 or more", IMAGE, version_2(0, 3)),
        Refusal("2 numbers", IMAGE, flex_map(output_size=[1, 2, 3, 4, 5])),
        Refusal("no output_height", IMAGE, {"custom_options": b"12345"}),
    ),
    draws={"m": matrices},
    loose=10,
)
