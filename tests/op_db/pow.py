"""POW: reference and samples."""

import numpy as np

from op_db import OpInfo, Sample, positive
from op_db.support.binary import LARGE, NUMBERS, SAMPLES, formula

INFO = OpInfo(
    "POW",
    formula(lambda a, b: a**b),
    samples=(
        *SAMPLES[:-1],
        Sample("integers", {"a": np.array([[-2, 5]]), "b": np.array([[3, 0]])}),
        Sample("exponents 0 and 1", {"a": (2, 2), "b": np.array([0.0, 1.0])}, {}, {}, ("b",)),
    ),
    large=LARGE,
    refusals=NUMBERS,
    draws={"a": positive},
    loose=4,
)
