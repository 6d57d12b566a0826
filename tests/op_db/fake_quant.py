"""FAKE_QUANT: reference and samples."""

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.unary import FLOAT, LARGE

INT8 = MappingProxyType({"scale": 0.25, "lo": -8, "hi": 7})
POSITIVE = MappingProxyType({"scale": 0.125, "lo": 0, "hi": 255})
FROM_FILE = MappingProxyType({"min": -1.0, "max": 2.75, "num_bits": 4, "narrow_range": False})


def range_of(o: Options) -> tuple[float, float, float]:
    """The step, the smallest and the largest number."""
    if "scale" in o:
        return o["scale"], o["scale"] * o["lo"], o["scale"] * o["hi"]
    step = (o["max"] - o["min"]) / (2 ** o["num_bits"] - 1 - o["narrow_range"])
    shift = o["min"] - np.rint(o["min"] / step) * step  # 0 becomes a number of the grid
    return step, o["min"] - shift, o["max"] - shift


def fake_quant(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    step, low, high = range_of(o)
    steps = np.rint(np.clip(i["x"], low, high) / step)
    return {"y": step * steps}


def clip(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.clip(i["x"], *range_of(o)[1:])}


def near_steps(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers inside and outside the range, none halfway between two steps or at the limits."""
    return 0.25 * rng.integers(-20, 20, shape) + rng.uniform(0.01, 0.05, shape)


INFO = OpInfo(
    "FAKE_QUANT",
    fake_quant,
    samples=(
        Sample("signed", {"x": (3, 5)}, INT8),
        Sample("positive", {"x": (2, 3, 4)}, POSITIVE),
        Sample("from min and max", {"x": (4, 4)}, FROM_FILE),
        Sample("narrow range", {"x": (4, 4)}, {**FROM_FILE, "max": 2.5, "narrow_range": True}),
        Sample("both limits", {"x": np.array([[0.126, 0.374, -0.124, -9.1, 9.1]])}, INT8),
    ),
    large=Sample("large", LARGE, INT8),
    refusals=(
        *(Refusal(r.words, r.inputs, INT8) for r in FLOAT),
        Refusal("num_bits must be 2 to 16", {"x": (2, 3)}, {**FROM_FILE, "num_bits": 17}),
        Refusal("must contain 0", {"x": (2, 3)}, {**FROM_FILE, "min": 1.0}),
        Refusal("to 3.4e+38 wide", {"x": (2, 3)}, {**FROM_FILE, "min": -1e-44, "max": 0.0}),
        Refusal("to 3.4e+38 wide", {"x": (2, 3)}, {**FROM_FILE, "min": -math.inf}),
    ),
    draw=near_steps,
    straight_through=clip,
)
