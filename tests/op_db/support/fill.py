"""Operators that repeat, fill and select."""

from typing import Any

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import BOOL, Sample


def ints(**named: Any) -> dict[str, Array]:
    return {n: np.array(v, np.int32) for n, v in named.items()}


def yes(*shape: int) -> Array:
    return np.asarray(np.random.default_rng(4).random(shape) < 0.5)


def pick(
    label: str, c: tuple[int, ...], a: tuple[int, ...], b: tuple[int, ...], **o: Any
) -> Sample:
    return Sample(label, {"c": yes(*c), "a": a, "b": b}, **o)


def flags(*shape: int) -> TensorSpec:
    return TensorSpec(shape, BOOL)


X = {"x": (2, 3, 4)}
