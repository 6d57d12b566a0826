"""SELECT: y = a where c is true, else b; a, b and y have one shape.

c has this shape too, or one entry for each entry of the first axis of y, or is a scalar.
Source: SelectOptions in the TFLite schema, tf.compat.v1.where.
"""

from odt.errors import ShapeError
from odt.kernels.families.elementwise import BOOL
from odt.kernels.families.select import selection
from odt.kernels.rows.opdef import Attrs, Specs, never_mixes_samples
from odt.kernels.rows.quantizeddef import QuantizedDef


def infer(attrs: Attrs, s: Specs) -> Specs:
    c, a, b = s["c"], s["a"], s["b"]
    fits = c.shape == a.shape or c.size == 1 or c.shape == a.shape[:1]
    if c.dtype != BOOL or a != b or not fits:
        raise ShapeError(
            "c must be bool, and a and b of its shape or with its entries along their first "
            f"axis, but got c {c}, a {a}, b {b}"
        )
    return {"y": a}


def condition_shape(s: Specs) -> tuple[int, ...]:
    c, y = s["c"], s["y"]
    if c.shape == y.shape or not y.shape:
        return y.shape
    return (c.size, *(1,) * (len(y.shape) - 1))


OP = selection(
    "SELECT",
    infer,
    never_mixes_samples,
    condition_shape,
    quantized=QuantizedDef(versions={"INT8": 2}),
)
