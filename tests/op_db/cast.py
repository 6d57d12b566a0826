"""CAST: reference and samples."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import BOOL, FLOAT32, FLOAT64, INT32, INT64, OpInfo, Options, Refusal, Sample


def cast(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, dtype = i["x"], o["output_types"][0]
    if dtype.kind == "b":
        return {"y": x != 0}
    if dtype.kind == "c":
        return {"y": x + 0j}
    x = x.real
    if dtype.kind in "iu" and x.dtype.kind == "f":
        limits = np.iinfo(dtype)
        numbers = [limits.max if np.isnan(v) else int(min(max(v, -1e19), 2e19)) for v in x.flat]
        limited = [min(max(v, limits.min), limits.max) for v in numbers]
        return {"y": np.array(limited, dtype).reshape(x.shape)}
    return {"y": np.trunc(x).astype(dtype) if dtype.kind in "iu" else x * 1.0}


def to(dtype: np.dtype[Any]) -> dict[str, Any]:
    return {"output_types": (dtype,)}


FLOATS = np.array([[-2.7, -0.4, 0.0, 0.4, 2.7]])
NUMBERS = np.array([[-2, 0, 3]], np.int32)
BEYOND = np.array([[300.7, -1.5, -0.5, 1e10, -1e10, 1e19, -128.9, 127.9, 65535.5, np.inf, np.nan]])
SPECTRUM = np.array([[1 - 2j, 0.5j, -3]])
INFO = OpInfo(
    "CAST",
    cast,
    samples=(
        Sample("float to double", {"x": (2, 3)}, to(FLOAT64)),
        Sample("float to integer", {"x": FLOATS}, to(INT32)),
        *(
            Sample(f"float beyond {dtype}", {"x": BEYOND}, to(np.dtype(dtype)))
            for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
        ),
        Sample("float to bool", {"x": FLOATS}, to(BOOL)),
        Sample("integer to float", {"x": NUMBERS}, to(FLOAT32)),
        Sample("integer to integer", {"x": NUMBERS}, to(INT64)),
        Sample("bool to float", {"x": NUMBERS > 0}, to(FLOAT32)),
        Sample("complex to float", {"x": SPECTRUM}, to(FLOAT32)),
        Sample("float to complex", {"x": (2, 3)}, to(np.dtype(np.complex128))),
        Sample("nothing", {"x": NUMBERS}, to(INT32)),
    ),
    large=Sample("large", {"x": (512, 512)}, to(FLOAT64)),
    also_large=(Sample("to integer", {"x": (512, 1024)}, to(INT32)),),
    refusals=(Refusal("must be numbers", {"x": (2,)}, to(np.dtype("V1"))),),
)
