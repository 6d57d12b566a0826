"""CONCATENATION: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import INT32, OpInfo, Options, Refusal, Sample
from op_db.support.splits import NUMBERS


def concatenation(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.concatenate([i[f"xs{k}"] for k in range(len(i))], o["axis"])}


def joined(*shapes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {f"xs{k}": shape for k, shape in enumerate(shapes)}


INFO = OpInfo(
    "CONCATENATION",
    concatenation,
    samples=(
        Sample("inside", joined((2, 3, 2), (2, 1, 2), (2, 2, 2)), {"axis": 1}),
        Sample("last axis", joined((2, 3), (2, 1)), {"axis": -1}),
        Sample("one", joined((2, 3)), {"axis": 1}),
        Sample("samples", joined((2, 3), (1, 3)), {"axis": 0}, mixes=True),
        Sample("nothing among them", joined((2, 3), (2, 0)), {"axis": 1}),
        Sample("more than ten", joined(*[(2, 1)] * 12), {"axis": 1}),
        Sample("integers", {"xs0": NUMBERS, "xs1": NUMBERS[:, :2].copy()}, {"axis": 1}),
    ),
    large=Sample("large", joined((64, 64, 64), (64, 64, 32)), {"axis": 2}),
    refusals=(
        Refusal("alike but for axis", joined((2, 3), (3, 3)), {"axis": 1}),
        Refusal("alike but for axis", joined((2, 3), (2, 3, 1)), {"axis": 1}),
        Refusal("alike", {"xs0": (2, 3), "xs1": TensorSpec((2, 3), INT32)}, {"axis": 1}),
        Refusal("axis must be within", joined((2, 3)), {"axis": 2}),
        Refusal("but got none", {}, {"axis": 0}),
    ),
)
