"""ARG_MAX and ARG_MIN: the index of the largest or smallest x along an axis; no gradient.

x (P…, K, Q…)    y (P…, Q…) integers; the first of equal values. Source: ArgMaxOptions and
ArgMinOptions in the TFLite schema, tf.argmax.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.elementwise import BOOL
from odt.kernels.geometry.axes import later_axis
from odt.kernels.geometry.statics import number
from odt.kernels.native.typed import arg_extreme
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef


@dataclass(frozen=True, slots=True)
class ArgAttrs:
    axis: int
    dtype: np.dtype[Any]

    def place(self, x: TensorSpec) -> int:
        """Returns the axis counted from 0.

        Raises:
            ShapeError: if x has no such axis, or it is empty.
        """
        rank = len(x.shape)
        axis = self.axis + rank if self.axis < 0 else self.axis
        if not 0 <= axis < rank or not x.shape[axis]:
            raise ShapeError(
                f"axis must be an axis of x that has elements, but got {self.axis}, x {x}"
            )
        return axis


def attrs(options: Options, statics: Mapping[str, Array]) -> ArgAttrs:
    dtype = options.get("output_types", (np.dtype(np.int64),))[0]
    if dtype.kind != "i":
        raise ShapeError(f"the output must be integers, but got {dtype}")
    return ArgAttrs(number("axis", statics), dtype)


def infer(attrs: ArgAttrs, s: Specs) -> Specs:
    x = s["x"]
    at = attrs.place(x)
    return {"y": TensorSpec((*x.shape[:at], *x.shape[at + 1 :]), attrs.dtype)}


def mixes_samples(attrs: ArgAttrs, s: Specs, batched: Names) -> bool:
    return attrs.place(s["x"]) == 0


def best_so_far(attrs: ArgAttrs, s: Specs) -> Specs:
    shape = s["y"].shape
    return {"best": TensorSpec(shape, s["x"].dtype), "better": TensorSpec(shape, BOOL)}


def arg_reduction(
    name: str, compare: Callable[..., Any], quantized: QuantizedDef | None = None
) -> OpDef:
    """Makes the row; `compare` is np.greater or np.less."""

    def forward(attrs: ArgAttrs, *, x: Array, y: Array, best: Array, better: Array) -> None:
        lead: tuple[Any, ...] = (slice(None),) * attrs.place(TensorSpec(x.shape, x.dtype))
        y.fill(0)
        np.copyto(best, x[(*lead, 0)])
        for k in range(1, x.shape[len(lead)]):
            compare(x[(*lead, k)], best, out=better)
            np.copyto(y, k, where=better)
            np.copyto(best, x[(*lead, k)], where=better)

    return OpDef(
        name,
        inputs=("x", "axis"),
        infer=infer,
        forward=Kernel(
            forward,
            reads=("x",),
            writes=("y",),
            workspace=best_so_far,
            compiled=arg_extreme(is_min=compare is np.less),
        ),
        grads={},
        stops=("x",),
        static=("axis",),
        attrs=attrs,
        mixes_samples=mixes_samples,
        add_batch_axis=later_axis,
        quantized=quantized,
    )
