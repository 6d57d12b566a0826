"""Operators of two inputs that are stretched to match, element by element."""

from collections.abc import Callable, Mapping

import numpy as np

from odt.kernels.opdef import Array, TensorSpec
from op_db import OpInfo, Options, Reference, Refusal, Sample, positive

INT32 = np.dtype(np.int32)


def formula(f: Callable[[Array, Array], Array]) -> Reference:
    def reference(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"y": f(i["a"], i["b"])}

    return reference


SAMPLES = (
    Sample("same shapes", {"a": (3, 4), "b": (3, 4)}),
    Sample("last axis", {"a": (3, 4), "b": (4,)}, constants=("b",)),
    Sample("first shorter", {"a": (4,), "b": (3, 4)}, constants=("a",)),
    Sample("a constant for all", {"a": (2, 2, 3), "b": ()}, constants=("b",)),
    Sample("ones inside", {"a": (2, 3, 2, 1), "b": (2, 1, 2, 3)}),
    Sample("ones in a constant", {"a": (2, 3, 2), "b": (1, 3, 1)}, constants=("b",)),
    Sample("both grow", {"a": (3, 1), "b": (1, 4)}, rebatches=False),
    Sample("lead of ones", {"a": (2, 3), "b": (1, 1, 1, 3)}, rebatches=False),
    Sample("samples along an axis", {"a": (4,), "b": (2, 1)}, constants=("b",), mixes=True),
    Sample("integers", {"a": np.array([[4, 6]], np.int32), "b": np.array([[3, -2]], np.int32)}),
)
REFUSALS = (
    Refusal("must match", {"a": (3, 4), "b": (3,)}),
    Refusal("must match", {"a": (3, 4), "b": TensorSpec((3, 4), INT32)}),
)
FLAGS = TensorSpec((3, 4), np.dtype(bool))
NUMBERS = (*REFUSALS, Refusal("must be numbers", {"a": FLAGS, "b": FLAGS}))
LARGE = Sample("large", {"a": (8, 256, 256), "b": (256, 256)})


def row(name: str, f: Callable[[Array, Array], Array]) -> OpInfo:
    return OpInfo(name, formula(f), SAMPLES, LARGE, NUMBERS)


def quotient(a: Array, b: Array) -> Array:
    """Integers are rounded towards 0, as in C."""
    return a / b if a.dtype.kind == "f" else np.trunc(a / b).astype(a.dtype)


def prelu(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return {"y": np.where(i["x"] > 0, i["x"], i["alpha"] * i["x"])}


def stretched(label: str, x: tuple[int, ...], alpha: tuple[int, ...]) -> Sample:
    return Sample(label, {"x": x, "alpha": alpha}, constants=("alpha",))


ROWS: tuple[OpInfo, ...] = (
    row("ADD", lambda a, b: a + b),
    row("SUB", lambda a, b: a - b),
    row("MUL", lambda a, b: a * b),
    row("DIV", quotient),
    row("SQUARED_DIFFERENCE", lambda a, b: a * a - 2 * a * b + b * b),
    row("MAXIMUM", lambda a, b: np.where(a > b, a, b)),
    row("MINIMUM", lambda a, b: np.where(a < b, a, b)),
    OpInfo(
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
    ),
    OpInfo(
        "PRELU",
        prelu,
        samples=(
            stretched("a channel each", (2, 2, 3, 2), (1, 1, 2)),
            stretched("one for all", (2, 3), (1,)),
            stretched("a value each", (3, 4), (4,)),
            stretched("rows", (2, 3, 2), (3, 1)),
            Sample("of x's shape", {"x": (2, 3), "alpha": (2, 3)}),
        ),
        large=stretched("large", (8, 64, 64, 16), (1, 1, 16)),
        refusals=(
            Refusal("must match x", {"x": (2, 3), "alpha": (2,)}),
            Refusal("must match x", {"x": (3,), "alpha": (2, 3)}),
            Refusal("must match x", {"x": (2, 1), "alpha": (1, 3)}),
            Refusal("float type", {"x": (2, 3), "alpha": TensorSpec((3,), INT32)}),
        ),
        loose=10,
    ),
)
