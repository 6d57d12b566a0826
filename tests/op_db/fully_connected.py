"""FULLY_CONNECTED: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import INT32, OpInfo, Options, Refusal, Sample


def fully_connected(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, w = i["x"], i["w"]
    keep = o.get("keep_num_dims", False)
    y = np.einsum("ni,oi->no", x.reshape(-1, w.shape[1]), w)
    if "b" in i:
        y = y + i["b"]
    return {"y": y.reshape(*x.shape[:-1], -1) if keep else y}


INFO = OpInfo(
    "FULLY_CONNECTED",
    fully_connected,
    samples=(
        Sample("bias", {"x": (3, 4), "w": (2, 4), "b": (2,)}, constants=("w", "b")),
        Sample("no bias", {"x": (3, 4), "w": (2, 4)}, constants=("w",)),
        Sample("rank 3", {"x": (2, 3, 4), "w": (5, 4), "b": (5,)}, rebatches=False),
        Sample("rows are samples", {"x": (2, 2, 2), "w": (5, 4)}, constants=("w",)),
        Sample("keep", {"x": (2, 3, 4), "w": (5, 4)}, {"keep_num_dims": True}, {}, ("w",)),
        Sample("many rows", {"x": (40, 5), "w": (19, 5), "b": (19,)}, constants=("w", "b")),
        Sample("rest of a vector", {"x": (7, 37), "w": (11, 37), "b": (11,)}, constants=("w", "b")),
        Sample("half a vector", {"x": (6, 13), "w": (5, 13)}, constants=("w",)),
        Sample("rows of two samples", {"x": (4, 2), "w": (3, 4)}, constants=("w",), mixes=True),
        Sample("units are samples", {"x": (3, 4), "w": (2, 4)}, constants=("x",), mixes=True),
        Sample("square", {"x": (3, 3), "w": (3, 3), "b": (3,)}, constants=("w", "b")),
        Sample("one", {"x": (1, 1), "w": (1, 1), "b": (1,)}, constants=("w", "b")),
    ),
    large=Sample("large", {"x": (256, 1024), "w": (256, 1024), "b": (256,)}),
    also_large=(
        Sample("square", {"x": (512, 512), "w": (512, 512), "b": (512,)}),
        Sample("deep", {"x": (8, 9216), "w": (32, 9216), "b": (32,)}),
    ),
    refusals=(
        Refusal("with one I", {"x": (3, 4), "w": (2, 5)}),
        Refusal("with one I", {"x": (3, 4), "w": (4,)}),
        Refusal("w not empty", {"x": (3, 4), "w": (0, 4)}),
        Refusal("keep_num_dims", {"x": (4, 2), "w": (3, 4)}, {"keep_num_dims": True}),
        Refusal("b must be (2,)", {"x": (3, 4), "w": (2, 4), "b": (3,)}),
        Refusal("one dtype", {"x": TensorSpec((3, 4), INT32), "w": (2, 4)}),
        Refusal("weights_format", {"x": (3, 4), "w": (2, 4)}, {"weights_format": 1}),
    ),
)
