"""CUSTOM:Landmarks2TransformMatrix: reference and samples."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample, between
from op_db.support.flex_maps import flex_map


def turn(r: Array) -> Array:
    return np.array([[np.cos(r), -np.sin(r), 0], [np.sin(r), np.cos(r), 0], [0, 0, 1]])


def shift(a: Any, b: Any) -> Array:
    return np.array([[1, 0, a], [0, 1, b], [0, 0, 1]])


def scaling(a: Any, b: Any) -> Array:
    return np.diag(np.array([a, b, 1]))


def box_of(points: Array, r: Array) -> tuple[Array, Array, Array, Array]:
    """Returns the middle of the box in the image, its width and its height."""
    turned = np.array([turn(r)[:2, :2] @ p for p in points])
    low, high = turned.min(axis=0), turned.max(axis=0)
    a, b = turn(-r)[:2, :2] @ ((low + high) / 2)
    return a, b, *(high - low)


def to_matrix(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """Multiplies one matrix for each change of coordinates, as MediaPipe's kernels do."""
    x, f = i["x"], o["fields"]
    y = np.zeros((len(x), 4, 4), x.dtype) + np.eye(4)
    for n, sample in enumerate(x.reshape(len(x), -1, 3)[..., :2]):
        across, down = sample[f["right_rotation_idx"]] - sample[f["left_rotation_idx"]]
        if "input_hw" in f:
            r = -np.arctan(down / across)
            span, by = f["landmarks_range"], f["bbox_size_multiplier"]
            (oh, ow), (ih, iw) = f["output_hw"], f["input_hw"]
            a, b, w, h = box_of(sample[f["subset"]], r)
            unit = shift(-1, -1) @ scaling(2 / (ow - 1), 2 / (oh - 1))
            crop = scaling(w * by / span, h * by / span)
            place = shift(2 * a / span - 1, 2 * b / span - 1) @ turn(-r)
            half = (iw - 1) / 2, (ih - 1) / 2
            made = shift(*half) @ scaling(*half) @ place @ crop @ unit
        else:
            r = f["target_rotation_radians"] - np.arctan2(down, across)
            oh, ow = f["output_height"], f["output_width"]
            a, b, w, h = box_of(sample[f["subset_idxs"]], r)
            crop = scaling(f["scale_x"] * w / ow, f["scale_y"] * h / oh)
            made = shift(a, b) @ turn(-r) @ crop @ shift(-ow / 2, -oh / 2)
        y[n, :2, :2], y[n, :2, 3] = made[:2, :2], made[:2, 2]
    return {"y": y}


def options(**fields: float | list[int]) -> Options:
    return {**flex_map(**fields), "fields": fields}


def version_2(**changed: float | list[int]) -> Options:
    fields: dict[str, float | list[int]] = {
        **{"left_rotation_idx": 1, "right_rotation_idx": 4, "subset_idxs": [4, 0, 2, 3, 6]},
        **{"output_height": 6, "output_width": 8, "scale_x": 1.5, "scale_y": 1.25},
        "target_rotation_radians": 0.0,
    }
    return options(**{**fields, **changed})


def version_1(**changed: float | list[int]) -> Options:
    fields: dict[str, float | list[int]] = {
        **{"left_rotation_idx": 1, "right_rotation_idx": 4, "subset": [4, 0, 2, 3, 6]},
        **{"input_hw": [32, 48], "output_hw": [6, 8], "dimensions": 3, "landmarks_range": 192},
        "bbox_size_multiplier": 1.5,
    }
    return options(**{**fields, **changed})


def made(label: str, o: Options, *shape: int) -> Sample:
    return Sample(label, {"x": shape}, o)


BACKWARDS = np.array(
    [[[9, 5, 1], [8, 2, 0], [3, 4, 1], [6, 9, 2], [2, 4, 1], [1, 1, 1], [7, 3, 5]]]
)
POINTS = {"x": (2, 8, 3)}
INFO = OpInfo(
    "CUSTOM:Landmarks2TransformMatrix",
    to_matrix,
    samples=(
        made("version 2", version_2(), 3, 8, 3),
        made("target", version_2(target_rotation_radians=0.7, scale_y=0.5), 2, 7, 3),
        Sample("backwards", {"x": BACKWARDS / 3}, version_2()),
        made("one landmark", version_2(subset_idxs=[1]), 1, 5, 3),
        made("version 1", version_1(), 3, 1, 1, 24),
        Sample("version 1, backwards", {"x": BACKWARDS.reshape(1, 1, 1, 21) / 3}, version_1()),
    ),
    large=made("large", version_2(), 250, 468, 3),
    also_large=(made("large, version 1", version_1(), 250, 1, 1, 1404),),
    refusals=(
        Refusal("x must be", {"x": (2, 8, 2)}, version_2()),
        Refusal("x must be", {"x": (2, 1, 1, 24)}, version_2()),
        Refusal("x must be", POINTS, version_1()),
        Refusal("x must be", {"x": (2, 1, 1, 25)}, version_1()),
        Refusal("0 … 5", {"x": (2, 6, 3)}, version_2()),
        Refusal("0 … 7", POINTS, version_2(left_rotation_idx=-1)),
        Refusal("0 … 7", POINTS, version_2(subset_idxs=[8])),
        Refusal("above 0", POINTS, version_2(output_width=0)),
        Refusal("above 0", POINTS, version_2(scale_x=-1.0)),
        Refusal("above 0", {"x": (2, 1, 1, 24)}, version_1(output_hw=[1, 8])),
        Refusal("dimensions must be 3", POINTS, version_1(dimensions=2)),
        Refusal("FlexBuffers map with", POINTS, {"custom_options": b""}),
        Refusal("got no subset_idxs", POINTS, flex_map(left_rotation_idx=1, right_rotation_idx=2)),
    ),
    draw=between(0, 3),
    loose=4,
)
