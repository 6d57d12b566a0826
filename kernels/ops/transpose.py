"""TRANSPOSE: axis k of y is axis perm[k] of x; dx is dy with the inverse permutation.

A permutation that moves only axes of length 1 is a view.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.copies import Moves, copying
from odt.kernels.geometry.axes import behind
from odt.kernels.rows.opdef import Array, Names, OpDef, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef


@dataclass(frozen=True, slots=True)
class TransposeAttrs:
    perm: tuple[int, ...]

    def axes(self, x: TensorSpec) -> tuple[int, ...]:
        """Returns the permutation with axes counted from 0."""
        rank = len(x.shape)
        axes = tuple(p + rank if p < 0 else p for p in self.perm)
        if sorted(axes) != list(range(rank)):
            raise ShapeError(f"perm must hold each axis of x once, but got {self.perm}, x {x}")
        return axes


def attrs(options: Options, statics: Mapping[str, Array]) -> TransposeAttrs:
    return TransposeAttrs(tuple(int(p) for p in np.ravel(statics["perm"])))


def infer(attrs: TransposeAttrs, s: Specs) -> Specs:
    x = s["x"]
    return {"y": TensorSpec(tuple(x.shape[p] for p in attrs.axes(x)), x.dtype)}


def mixes_samples(attrs: TransposeAttrs, s: Specs, batched: Names) -> bool:
    axes = attrs.axes(s["x"])
    return bool(axes) and axes[0] != 0


def add_batch_axis(attrs: TransposeAttrs, samples: int) -> TransposeAttrs:
    return TransposeAttrs((0, *map(behind, attrs.perm)))


def keeps_order(attrs: TransposeAttrs, s: Specs) -> bool:
    x = s["x"]
    long = [p for p in attrs.axes(x) if x.shape[p] != 1]
    return long == sorted(long)


def prepare(attrs: TransposeAttrs, s: Specs) -> Mapping[str, Any]:
    return {"axes": attrs.axes(s["x"])}


def forward(attrs: TransposeAttrs, *, x: Array, y: Array, axes: tuple[int, ...]) -> Moves:
    yield x.transpose(axes), y


def grad_x(attrs: TransposeAttrs, *, dy: Array, dx: Array, axes: tuple[int, ...]) -> Moves:
    yield dy, dx.transpose(axes)


OP = OpDef(
    "TRANSPOSE",
    inputs=("x", "perm"),
    infer=infer,
    forward=copying(forward, ("x",), ("y",), prepare, keeps_order),
    grads={"x": copying(grad_x, ("dy",), ("dx",), prepare, keeps_order)},
    static=("perm",),
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=add_batch_axis,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 5, "INT4": 7},
        int8=True,
        int16=True,
        same="output",
        values="moved",
    ),
)
