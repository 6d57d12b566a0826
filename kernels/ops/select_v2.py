"""SELECT_V2: y = a where c is true, else b, with c, a and b broadcast.

Source: SelectV2Options in the TFLite schema, tf.where.
"""

from dataclasses import replace

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.elementwise import BOOL
from odt.kernels.families.select import selection
from odt.kernels.geometry.axes import same
from odt.kernels.rows.opdef import Attrs, Names, Specs, TensorSpec


def infer(attrs: Attrs, s: Specs) -> Specs:
    c, a, b = s["c"], s["a"], s["b"]
    try:
        shape = np.broadcast_shapes(c.shape, a.shape, b.shape)
    except ValueError:
        shape = None
    if shape is None or c.dtype != BOOL or a.dtype != b.dtype:
        raise ShapeError(
            "c must be bool, and c, a and b match from the last axis on, "
            f"but got c {c}, a {a}, b {b}"
        )
    return {"y": TensorSpec(shape, a.dtype)}


def condition_shape(s: Specs) -> tuple[int, ...]:
    return s["c"].shape


def mixes_samples(attrs: Attrs, s: Specs, batched: Names) -> bool:
    """Whether an input is broadcast over axes before its batch, which is then not axis 0 of y."""
    rank = max(len(s[n].shape) for n in ("c", "a", "b"))
    return any(len(s[n].shape) < rank for n in batched)


OP = replace(selection("SELECT_V2", infer, mixes_samples, condition_shape), permute=same)
