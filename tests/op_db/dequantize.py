"""DEQUANTIZE: reference and samples."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from odt.kernels.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample

INT8 = MappingProxyType({"scale": 0.25, "zero_point": -3, "output_types": (np.dtype(np.float32),)})


def dequantize(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": (i["x"].astype(float) - o["zero_point"]) * o["scale"]}


INFO = OpInfo(
    "DEQUANTIZE",
    dequantize,
    samples=(
        Sample("int8", {"x": np.array([[-128, -3, 0, 127]], np.int8)}, INT8),
        Sample("uint8", {"x": np.array([[0], [3], [255]], np.uint8)}, {**INT8, "zero_point": 3}),
        Sample("int16", {"x": np.array([[-32768, 32767]], np.int16)}, INT8),
    ),
    large=Sample("large", {"x": np.arange(2**20, dtype=np.int32).astype(np.int8)[None]}, INT8),
    refusals=(
        Refusal("must hold integers", {"x": (2, 3)}, INT8),
        Refusal("one scale", {"x": (2, 3)}),
    ),
)
