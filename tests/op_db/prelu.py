"""PRELU: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import INT32, OpInfo, Options, Refusal, Sample


def prelu(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.where(i["x"] > 0, i["x"], i["alpha"] * i["x"])}


def stretched(label: str, x: tuple[int, ...], alpha: tuple[int, ...]) -> Sample:
    return Sample(label, {"x": x, "alpha": alpha}, constants=("alpha",))


INFO = OpInfo(
    "PRELU",
    prelu,
    samples=(
        stretched("a channel each", (2, 2, 3, 2), (1, 1, 2)),
        stretched("one for all", (2, 3), (1,)),
        stretched("a value each", (3, 4), (4,)),
        stretched("rows", (2, 3, 2), (3, 1)),
        stretched("many short rows", (2, 110, 3), (3,)),
        stretched("a value for each of them", (2, 110, 3), (110, 1)),
        Sample("of x's shape", {"x": (2, 3), "alpha": (2, 3)}),
    ),
    large=stretched("large", (8, 64, 64, 16), (1, 1, 16)),
    refusals=(
        Refusal("must match x", {"x": (2, 3), "alpha": (2,)}),
        Refusal("must match x", {"x": (3,), "alpha": (2, 3)}),
        Refusal("must match x", {"x": (2, 1), "alpha": (1, 3)}),
        Refusal("float type", {"x": (2, 3), "alpha": TensorSpec((3,), INT32)}),
    ),
    loose=10,
)
