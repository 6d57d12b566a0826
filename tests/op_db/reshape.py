"""RESHAPE: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample


def reshape(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    target = o["shape"] if "shape" in o else o["new_shape"]
    return {"y": i["x"].reshape(tuple(np.ravel(target)))}


INFO = OpInfo(
    "RESHAPE",
    reshape,
    samples=(
        Sample("flat", {"x": (1, 2, 3)}, statics={"shape": np.array([1, 6], np.int32)}),
        Sample("-1 is the batch", {"x": (1, 2, 3)}, statics={"shape": np.array([-1, 6])}),
        Sample("-1 is not the batch", {"x": (2, 3, 2)}, statics={"shape": np.array([2, -1])}),
        Sample("options", {"x": (2, 6)}, {"new_shape": (2, 3, 2)}),
        Sample("rows from a sample", {"x": (1, 6)}, {"new_shape": (2, 3)}),
        Sample("one of several", {"x": (2, 3)}, {"new_shape": (1, 6)}, mixes=True),
        Sample("to a scalar", {"x": (1,)}, {"new_shape": ()}, rebatches=False),
        Sample("complex", {"x": np.array([[1j, 2.0, 3 - 1j]])}, {"new_shape": (3, 1)}),
        Sample("integers", {"x": np.arange(6, dtype=np.int32)}, {"new_shape": (6, 1)}),
    ),
    large=Sample("large", {"x": (64, 4096)}, {"new_shape": (64, 64, 64)}),
    refusals=(
        Refusal("hold x's elements", {"x": (2, 3)}, {"new_shape": (4, 2)}),
        Refusal("hold x's elements", {"x": (2, 3)}, {"new_shape": (-1, -1)}),
        Refusal("hold x's elements", {"x": (2, 3)}, {"new_shape": (-1, 4)}),
        Refusal("hold x's elements", {"x": (2, 3)}, {"new_shape": (-2, -3)}),
    ),
)
