"""REDUCE_PROD: reference and samples."""

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import Sample
from op_db.support.reduce import over, row


def around_one(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Products of hundreds stay near 1."""
    return rng.choice([-1.0, 1.0], shape) * rng.uniform(0.95, 1.05, shape)


def with_zeros(*zeros: int) -> Array:
    x = np.linspace(0.5, 2, 12).reshape(3, 4)
    x.flat[list(zeros)] = 0
    return x


ZEROS = (Sample("none, one and two zeros", {"x": with_zeros(5, 8, 11)}, {}, over(1)),)
INFO = row("REDUCE_PROD", lambda m: np.multiply.reduce(m, 1), draw=around_one, more=ZEROS)
