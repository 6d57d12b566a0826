"""Comparisons and logical operators: two inputs that are broadcast, a bool output, no gradient."""

from collections.abc import Callable
from typing import Any

from odt.errors import ShapeError
from odt.kernels.families.binary import BINARY, infer_any, mixes_samples
from odt.kernels.families.elementwise import BOOL
from odt.kernels.geometry.axes import same
from odt.kernels.rows.opdef import Array, Attrs, Compiled, Kernel, OpDef, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef


def infer(attrs: Attrs, s: Specs) -> Specs:
    return {"y": TensorSpec(infer_any(attrs, s)["y"].shape, BOOL)}


def infer_logical(attrs: Attrs, s: Specs) -> Specs:
    if s["a"].dtype != BOOL:
        raise ShapeError(f"a and b must be bool, but got a {s['a']}, b {s['b']}")
    return infer(attrs, s)


def comparison(
    name: str,
    f: Callable[..., Any],
    infer: Callable[[Attrs, Specs], Specs] = infer,
    *,
    compiled: Compiled,
    quantized: QuantizedDef | None = None,
) -> OpDef:
    """Makes the row of an elementwise comparison y = f(a, b)."""

    def forward(attrs: Attrs, *, a: Array, b: Array, y: Array) -> None:
        f(a, b, out=y)

    return OpDef(
        name,
        inputs=BINARY,
        infer=infer,
        forward=Kernel(forward, reads=BINARY, writes=("y",), compiled=compiled),
        grads={},
        stops=BINARY,
        mixes_samples=mixes_samples,
        add_batch_axis=same,
        permute=same,
        quantized=quantized,
    )
