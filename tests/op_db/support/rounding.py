"""Operators that are flat between their jumps."""

from collections.abc import Callable

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Sample
from op_db.support.binary import LARGE, NUMBERS, SAMPLES, formula

SIDES = Sample(
    "both sides", {"x": np.array([[-1.9, -1.6, -1.1, -0.1, 0.1, 1.1, 1.6, 1.9, 1000.3]])}
)


def each(f: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda x: np.array([float(f(v)) for v in x.flat]).reshape(x.shape)


def between_jumps(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Neither near an integer nor near a half."""
    return rng.integers(-6, 6, shape) / 2 + rng.uniform(0.1, 0.4, shape)


def tenths(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Odd tenths of both signs, which no divisor below divides."""
    return (2 * rng.integers(-30, 30, shape) + 1) / 10


def divisors(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.choice([-2.0, -1.0, -0.4, 0.4, 1.0, 2.0], shape)


def floor_div(a: Array, b: Array) -> Array:
    return np.floor(a / b).astype(np.result_type(a, b))


def quotients(name: str, f: Callable[[Array, Array], Array]) -> OpInfo:
    return OpInfo(
        name, formula(f), SAMPLES, LARGE, NUMBERS, draws={"a": tenths, "b": divisors}, loose=10
    )
