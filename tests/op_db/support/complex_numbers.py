"""Complex inputs: an operator that reads one takes its absolute value, or a part."""

from collections.abc import Callable

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import OpInfo, Refusal, Sample

COMPLEX64 = np.dtype(np.complex64)


def complex_numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers at least 0.1 from 0, in all directions."""
    turns: Array = np.exp(1j * rng.uniform(-np.pi, np.pi, shape))
    return rng.uniform(0.1, 1.5, shape) * turns


def part_of_complex(name: str, part: Callable[[Array], Array]) -> OpInfo:
    """Makes the row of an operator with a real y for a complex x."""
    return OpInfo(
        name,
        lambda o, i: {"y": part(i["x"])},
        samples=(Sample("frames", {"x": (2, 3, 4)}), Sample("nothing", {"x": (2, 0)})),
        large=Sample("large", {"x": (8, 256, 128)}),
        refusals=(Refusal("complex", {"x": (2, 3)}),),
        draw=complex_numbers,
    )


def spectrum(*shape: int) -> TensorSpec:
    return TensorSpec(shape, COMPLEX64)
