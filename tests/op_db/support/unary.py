"""Operators of one input, element by element."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import INT32, Draw, OpInfo, Options, Reference, Refusal, Sample, away_from_zero

FLOAT = (Refusal("float", {"x": TensorSpec((2, 3), INT32)}),)
NUMBER = (Refusal("must be a number", {"x": TensorSpec((2, 3), np.dtype(bool))}),)
LARGE = {"x": (512, 1024)}


def formula(f: Callable[..., Any], *settings: str) -> Reference:
    """f(x, settings by name)."""

    def reference(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"y": f(i["x"], *(o[n] for n in settings))}

    return reference


def row(
    name: str,
    f: Callable[[Array], Array],
    draw: Draw = away_from_zero,
    integers: bool = False,
    more: tuple[Sample, ...] = (),
) -> OpInfo:
    """An operator without options."""
    samples = [Sample("rank 2", {"x": (3, 4)}), Sample("rank 4", {"x": (1, 2, 3, 2)}), *more]
    if integers:
        samples.append(Sample("integers", {"x": np.array([[-3, 0, 4]], np.int32)}))
    refusals = NUMBER if integers else FLOAT
    large = Sample("large", LARGE)
    return OpInfo(name, formula(f), tuple(samples), large, refusals, draw=draw)


def points(*x: float) -> Sample:
    return Sample("both sides", {"x": np.array([x], float)})
