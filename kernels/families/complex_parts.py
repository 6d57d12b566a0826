"""Operators on complex tensors x + iy: gradients are complex too, dL/dx + i dL/dy."""

from typing import Any

import numpy as np

from odt.errors import ShapeError
from odt.kernels.rows.opdef import Array, Attrs, Specs, TensorSpec


def complex_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the dtype of complex numbers whose parts have a float dtype."""
    return np.result_type(dtype, np.complex64)


def real_like_x(attrs: Attrs, s: Specs) -> Specs:
    """Infers a real y for a complex x."""
    x = s["x"]
    if x.dtype.kind != "c":
        raise ShapeError(f"x must be complex, but got {x}")
    return {"y": TensorSpec(x.shape, np.empty(0, x.dtype).real.dtype)}


def fitting_part(source: Array, target: Array) -> Array:
    """Returns the real part of a source, or all of it if the target is complex.

    NumPy warns if it drops the imaginary part itself.
    """
    return source if target.dtype.kind == "c" else source.real
