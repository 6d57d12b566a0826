"""MIRROR_PAD: pads x with its own values, mirrored at each end.

In mode REFLECT (0) the last value is not repeated, in mode SYMMETRIC (1) it is. y is filled axis by
axis, so corners are mirrored twice. Backward adds the gradient of each mirrored value to that of
the value it mirrors, in the reverse order. Source: MirrorPadOptions in the TFLite schema, tf.pad.

The compiled kernels select and add rows of channels by tables.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.pad import PadAttrs, add_batch_axis_to_pads, moved_pads, pad_attrs
from odt.kernels.families.pad import infer as infer_pad
from odt.kernels.families.pad import mixes_samples as pad_mixes
from odt.kernels.native import gather
from odt.kernels.rows.opdef import Array, Compiled, Kernel, Names, OpDef, Options, Specs, TensorSpec
from odt.kernels.rows.quantizeddef import QuantizedDef

LONG = 8  # values of a row with which copying rows takes less time


@dataclass(frozen=True, slots=True)
class MirrorAttrs:
    """Padding for each axis, and the mode: 0 for REFLECT, 1 for SYMMETRIC."""

    pad: PadAttrs
    mode: int

    @property
    def skip(self) -> int:
        """Number of values at each end that are not repeated."""
        return 1 - self.mode


def attrs(options: Options, statics: Mapping[str, Array]) -> MirrorAttrs:
    mode = int(options.get("mode", 0))
    if mode not in (0, 1):
        raise ShapeError(f"mode must be REFLECT (0) or SYMMETRIC (1), but got {mode}")
    return MirrorAttrs(pad_attrs(options, statics), mode)


def infer(attrs: MirrorAttrs, s: Specs) -> Specs:
    padded = infer_pad(attrs.pad, s)
    x = s["x"]
    most = [n - attrs.skip for n in x.shape]
    if any(max(pair) > m for pair, m in zip(attrs.pad.pads, most, strict=True)):
        raise ShapeError(
            f"paddings must be at most the values that can be mirrored, {tuple(most)}, "
            f"but got {attrs.pad.pads}, x {x}"
        )
    return padded


def mixes_samples(attrs: MirrorAttrs, s: Specs, batched: Names) -> bool:
    return pad_mixes(attrs.pad, s, batched)


def add_batch_axis(attrs: MirrorAttrs, samples: int) -> MirrorAttrs:
    return replace(attrs, pad=add_batch_axis_to_pads(attrs.pad, samples))


def permute(attrs: MirrorAttrs, perm: tuple[int, ...]) -> MirrorAttrs:
    return replace(attrs, pad=moved_pads(attrs.pad, perm))


def mirrors(attrs: MirrorAttrs, y: Array) -> Iterator[tuple[Array, Array]]:
    """Yields pairs (part of the padding, the values it mirrors), axis by axis.

    Later axes are without their padding.
    """
    pads = attrs.pad.pads
    for k, (lo, hi) in enumerate(pads):
        rest = tuple(
            slice(before, n - after)
            for (before, after), n in zip(pads[k + 1 :], y.shape[k + 1 :], strict=True)
        )
        lead = (slice(None),) * k
        end = y.shape[k] - hi
        for size, start, mirrored in (
            (lo, 0, lo + attrs.skip),
            (hi, end, end - hi - attrs.skip),
        ):
            if size:
                source = y[(*lead, slice(mirrored, mirrored + size), *rest)]
                yield y[(*lead, slice(start, start + size), *rest)], np.flip(source, k)


def forward(attrs: MirrorAttrs, *, x: Array, y: Array) -> None:
    np.copyto(y[attrs.pad.inside(x.shape)], x)
    for part, mirrored in mirrors(attrs, y):
        np.copyto(part, mirrored)


def copy_of_dy(attrs: MirrorAttrs, s: Specs) -> Specs:
    return {"dy_copy": s["y"]}


def grad_x(attrs: MirrorAttrs, *, dy: Array, dx: Array, dy_copy: Array) -> None:
    np.copyto(dy_copy, dy)
    for part, mirrored in reversed(list(mirrors(attrs, dy_copy))):
        np.add(mirrored, part, out=mirrored)
    np.copyto(dx, dy_copy[attrs.pad.inside(dx.shape)])


def padded_axes(attrs: MirrorAttrs) -> slice:
    """Returns the range of axes from the first to the last one with padding."""
    axes = [k for k, pair in enumerate(attrs.pad.pads) if any(pair)] or [0]
    return slice(axes[0], axes[-1] + 1)


def as_rows(attrs: MirrorAttrs, a: Array) -> Array:
    """Reshapes a to (axes before the padded ones, padded axes, axes after them)."""
    axes = padded_axes(attrs)
    sizes = (a.shape[: axes.start], a.shape[axes], a.shape[axes.stop :])
    return a.reshape([prod(n) for n in sizes], copy=False)


def has_long_rows(attrs: MirrorAttrs, s: Specs) -> bool:
    """Whether it takes less time to copy rows than NumPy does along each axis."""
    width = prod(s["x"].shape[padded_axes(attrs).stop :])
    return width >= LONG and gather.fits("x")(attrs, s)


def mirrored_rows(attrs: MirrorAttrs, x: TensorSpec) -> Array:
    """Returns the row of x for each row of y."""
    axes = padded_axes(attrs)
    rows = np.arange(prod(x.shape[axes])).reshape(x.shape[axes])
    mode = "symmetric" if attrs.mode else "reflect"
    padded: Array = np.pad(rows, attrs.pad.pads[axes], mode)  # type: ignore[call-overload]
    return padded.reshape(-1)


def selected(attrs: MirrorAttrs, s: Specs) -> Mapping[str, Any]:
    return {"matrix": gather.selection(mirrored_rows(attrs, s["x"]))}


def selected_back(attrs: MirrorAttrs, s: Specs) -> Mapping[str, Any]:
    rows = prod(s["x"].shape[padded_axes(attrs)])
    return {"matrix": gather.transposed(mirrored_rows(attrs, s["x"]), rows)}


def call_forward(attrs: MirrorAttrs, *, x: Array, y: Array, matrix: Any) -> Callable[[], None]:
    return gather.multiply(matrix, as_rows(attrs, x), as_rows(attrs, y))


def call_grad_x(attrs: MirrorAttrs, *, dy: Array, dx: Array, matrix: Any) -> Callable[[], None]:
    return gather.multiply(matrix, as_rows(attrs, dy), as_rows(attrs, dx))


FORWARD = Compiled(call_forward, has_long_rows, prepare=selected)
GRAD_X = Compiled(call_grad_x, has_long_rows, prepare=selected_back)
OP = OpDef(
    "MIRROR_PAD",
    inputs=("x", "paddings"),
    infer=infer,
    forward=Kernel(forward, reads=("x",), writes=("y",), compiled=FORWARD),
    grads={
        "x": Kernel(grad_x, reads=("dy",), writes=("dx",), workspace=copy_of_dy, compiled=GRAD_X)
    },
    static=("paddings",),
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=add_batch_axis,
    permute=permute,
    quantized=QuantizedDef(
        versions={"INT8": 2, "INT16": 3},
        int8=True,
        same="output",
        values="moved",
        checks_scales=True,
    ),
)
