"""Padding and shapes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import Options


def pad(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    value = float(i["value"].reshape(())) if "value" in i else 0.0
    return {"y": np.pad(i["x"], o["paddings"], constant_values=value).astype(i["x"].dtype)}


def shape(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.array(i["x"].shape)}


def padded(*pairs: tuple[int, int]) -> dict[str, Any]:
    return {"paddings": np.array(pairs, np.int32)}


def at(axis: int) -> dict[str, Any]:
    return {"axis": np.array(axis, np.int32)}


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
