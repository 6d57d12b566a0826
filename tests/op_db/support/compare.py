"""Comparisons and logical operators, value by value."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Reference, Refusal, Sample
from op_db.support.binary import REFUSALS

NUMBERS = np.array([[-1, 0, 2], [3, 3, -4]], np.int32)
OTHERS = np.array([[-1, 1, 2], [2, 4, -4]], np.int32)
BITS = np.array([[False, True, False, True], [True, True, False, False]])
FLOATS = Refusal("must be bool", {"a": (2, 3), "b": (2, 3)})


def pairs(f: Callable[[Any, Any], Any]) -> Reference:
    def reference(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
        a, b = np.broadcast_arrays(i["a"], i["b"])
        y = [bool(f(v, w)) for v, w in zip(a.flat, b.flat, strict=True)]
        return {"y": np.array(y).reshape(a.shape)}

    return reference


def halves(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """So few values that equals are many."""
    return rng.integers(-3, 4, shape) / 2


def bits(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.integers(0, 2, shape).astype(bool)


def compare(name: str, f: Callable[[Any, Any], Any]) -> OpInfo:
    return OpInfo(
        name,
        pairs(f),
        samples=(
            Sample("same shapes", {"a": (3, 4), "b": (3, 4)}),
            Sample("last axis", {"a": (3, 4), "b": (4,)}, constants=("b",)),
            Sample("a constant", {"a": (2, 2, 3), "b": ()}, constants=("b",)),
            Sample("a row by samples", {"a": (3, 1), "b": (1, 4)}, constants=("b",)),
            Sample("samples along an axis", {"a": (4,), "b": (2, 1)}, {}, {}, ("b",), mixes=True),
            Sample("integers", {"a": NUMBERS, "b": OTHERS}),
        ),
        large=Sample("large", {"a": (4, 256, 256), "b": (256, 256)}, constants=("b",)),
        refusals=REFUSALS,
        draw=halves,
    )


def logical(name: str, f: Callable[[Any, Any], Any]) -> OpInfo:
    return OpInfo(
        name,
        pairs(f),
        samples=(
            Sample("all four", {"a": BITS, "b": BITS[:, ::-1].copy()}),
            Sample("last axis", {"a": BITS, "b": BITS[0]}, constants=("b",)),
        ),
        large=Sample("large", {"a": (4, 256, 512), "b": (256, 512)}, constants=("b",)),
        refusals=(FLOATS,),
        draw=bits,
    )
