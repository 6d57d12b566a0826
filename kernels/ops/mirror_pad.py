"""MIRROR_PAD: pads x with its own values, mirrored at each end.

In mode REFLECT (0) the last value is not repeated, in mode SYMMETRIC (1) it is. y is filled axis by
axis, so corners are mirrored twice. Backward adds the gradient of each mirrored value to that of
the value it mirrors, in the reverse order. Source: MirrorPadOptions in the TFLite schema, tf.pad.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.pad import PadAttrs, add_batch_axis_to_pads, pad_attrs
from odt.kernels.families.pad import infer as infer_pad
from odt.kernels.families.pad import mixes_samples as pad_mixes
from odt.kernels.opdef import Array, Kernel, Names, OpDef, Options, Specs


@dataclass(frozen=True, slots=True)
class MirrorAttrs:
    """Padding for each axis, and the mode: 0 for REFLECT, 1 for SYMMETRIC."""

    pad: PadAttrs
    mode: int


def attrs(options: Options, statics: Mapping[str, Array]) -> MirrorAttrs:
    mode = int(options.get("mode", 0))
    if mode not in (0, 1):
        raise ShapeError(f"mode must be REFLECT (0) or SYMMETRIC (1), but got {mode}")
    return MirrorAttrs(pad_attrs(options, statics), mode)


def infer(attrs: MirrorAttrs, s: Specs) -> Specs:
    padded = infer_pad(attrs.pad, s)
    x = s["x"]
    most = [n - 1 + (attrs.mode == 1) for n in x.shape]
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


def mirrors(attrs: MirrorAttrs, y: Array) -> Iterator[tuple[Array, Array]]:
    """Yields pairs (part of the padding, the values it mirrors), axis by axis.

    Later axes are without their padding.
    """
    pads = attrs.pad.pads
    skip = 1 - attrs.mode
    for k, (lo, hi) in enumerate(pads):
        rest = tuple(
            slice(before, n - after)
            for (before, after), n in zip(pads[k + 1 :], y.shape[k + 1 :], strict=True)
        )
        lead = (slice(None),) * k
        end = y.shape[k] - hi
        for size, to, first in ((lo, 0, lo + skip), (hi, end, end - hi - skip)):
            if size:
                there = y[(*lead, slice(first, first + size), *rest)]
                yield y[(*lead, slice(to, to + size), *rest)], np.flip(there, k)


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


OP = OpDef(
    "MIRROR_PAD",
    inputs=("x", "paddings"),
    infer=infer,
    forward=Kernel(forward, reads=("x",), writes=("y",)),
    grads={"x": Kernel(grad_x, reads=("dy",), writes=("dx",), workspace=copy_of_dy)},
    static=("paddings",),
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=add_batch_axis,
)
