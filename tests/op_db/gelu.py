"""GELU: reference and samples."""

from math import erf, pi

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Refusal, Sample
from op_db.support.unary import FLOAT, formula


def gelu(x: Array, approximate: bool) -> Array:
    if approximate:
        return np.asarray(x * (1 + np.tanh((2 / pi) ** 0.5 * (x + 0.044715 * x**3))) / 2)
    phi = np.array([(1 + erf(v / 2**0.5)) / 2 for v in x.flat]).reshape(x.shape)
    return np.asarray(x * phi)


GELU_POINTS = np.array([np.linspace(-7, 7, 60)])
INFO = OpInfo(
    "GELU",
    formula(gelu, "approximate"),
    samples=tuple(
        Sample(f"{label}, {how}", {"x": x}, {"approximate": how == "approximate"})
        for how in ("exact", "approximate")
        for label, x in (("rank 2", (3, 4)), ("all ranges", GELU_POINTS))
    ),
    large=Sample("large", {"x": (4, 8_000, 3)}, {"approximate": False}),
    also_large=(Sample("approximate", {"x": (4, 8_000, 3)}, {"approximate": True}),),
    refusals=tuple(Refusal(r.words, r.inputs, {"approximate": False}) for r in FLOAT),
    loose=4,
)
