"""Two inputs of different shapes, as NumPy and TFLite match them: from the last axis on."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.errors import ShapeError
from odt.kernels.opdef import Array, Attrs, Specs, TensorSpec


def infer(attrs: Attrs, s: Specs) -> Specs:
    """The spec of y for inputs a and b."""
    a, b = s["a"], s["b"]
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        shape = None
    if shape is None or a.dtype != b.dtype:
        raise ShapeError(f"a and b must match from the last axis on, but got a {a}, b {b}")
    return {"y": TensorSpec(shape, a.dtype)}


def summed_axes(y: tuple[int, ...], x: tuple[int, ...]) -> tuple[int, ...]:
    """Axes of y along which x was stretched."""
    lead = len(y) - len(x)
    return tuple(range(lead)) + tuple(
        k for k in range(lead, len(y)) if x[k - lead] == 1 and y[k] != 1
    )


def reducer(name: str) -> Any:
    """For a gradient of the input `name`: `prepare` of its kernel.

    It gives the axes to sum over, and x's shape with the axes it lacks.
    """

    def prepare(attrs: Attrs, s: Specs) -> Mapping[str, Any]:
        y, x = s["y"].shape, s[name].shape
        kept = (1,) * (len(y) - len(x)) + x
        return {"axes": summed_axes(y, x), "kept": kept}

    return prepare


def product_like_y(name: str) -> Any:
    """Workspace for a gradient that has to be summed: as large as y; none where shapes agree."""

    def workspace(attrs: Attrs, s: Specs) -> Specs:
        return {"whole": s["y"]} if s["y"].shape != s[name].shape else {}

    return workspace


def sum_into(whole: Array, dx: Array, axes: tuple[int, ...], kept: tuple[int, ...]) -> None:
    """Adds up what an input got wherever it was stretched to."""
    np.sum(whole, axis=axes, keepdims=True, out=dx.reshape(kept, copy=False))


def is_whole(name: str) -> Any:
    """Whether an input has y's shape, so that its gradient may be dy itself."""

    def view(attrs: Attrs, s: Specs) -> bool:
        return s[name].shape == s["y"].shape

    return view


BINARY = ("a", "b")
IN_PLACE = frozenset({("y", "a"), ("y", "b")})
