"""Operators of two inputs that are broadcast, element by element."""

from collections.abc import Callable, Mapping

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import INT32, OpInfo, Options, Reference, Refusal, Sample


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
    Sample("groups of channels", {"a": (2, 3, 2, 4), "b": (2, 1, 2, 1)}),
    Sample("groups in a constant", {"a": (2, 5, 3, 2, 4), "b": (1, 5, 1, 2, 1)}, constants=("b",)),
    Sample("many rows", {"a": (40, 21), "b": (21,)}, constants=("b",)),
    Sample("both grow", {"a": (3, 1), "b": (1, 4)}, rebatches=False),
    Sample("lead of ones", {"a": (2, 3), "b": (1, 1, 1, 3)}, rebatches=False),
    Sample("samples along an axis", {"a": (4,), "b": (2, 1)}, constants=("b",), mixes=True),
    Sample("integers", {"a": np.array([[4, 6]], np.int32), "b": np.array([[3, -2]], np.int32)}),
)

REFUSALS = (
    Refusal("must match", {"a": (3, 4), "b": (3,)}),
    Refusal("must have one type", {"a": (3, 4), "b": TensorSpec((3, 4), INT32)}),
)

FLAGS = TensorSpec((3, 4), np.dtype(bool))
NUMBERS = (*REFUSALS, Refusal("must be numbers", {"a": FLAGS, "b": FLAGS}))
LARGE = Sample("large", {"a": (8, 256, 256), "b": (256, 256)})


def row(name: str, f: Callable[[Array, Array], Array]) -> OpInfo:
    return OpInfo(name, formula(f), SAMPLES, LARGE, NUMBERS)
