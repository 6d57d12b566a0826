"""Operators that split, join, permute and slice."""

from typing import Any

import numpy as np

NUMBERS = np.arange(12, dtype=np.int32).reshape(3, 4)
X = (2, 3, 4)
LARGE = {"x": (64, 64, 128)}


def statics(**values: Any) -> dict[str, Any]:
    return {n: np.array(v, np.int32) for n, v in values.items()}
