"""Attributes of convolutions, and the windows of their forward and backward passes."""

from collections.abc import Mapping
from dataclasses import field
from math import prod
from typing import Any

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.geometry.im2col import PaddedImages
from odt.kernels.geometry.window import SAME, Axis, StridePhase, axis, phases
from odt.kernels.rows.opdef import Array, Options, Specs, TensorSpec

MAX_PHASES = 1 << 14  # in one layer
IMAGES = {"x", "dx", "y", "dy"}  # divided along the last axis
# Divided along the first axis: weights, and the constants of integer rows.
UNITS = {"w", "dw", "b", "db", "m", "start", "zeros"}
Axes = tuple[Axis, Axis]
Pairs = tuple[tuple[StridePhase, StridePhase], ...]


@dataclass(frozen=True, slots=True)
class ConvAttrs:
    """Attributes of a convolution.

    Attributes:
        padding: SAME or VALID, as in the schema.
        stride, dilation: (height, width).
        zeros: zeros before and after height and width, for padding VALID.
    """

    padding: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    zeros: tuple[tuple[int, int], ...] = field(default=((0, 0), (0, 0)), kw_only=True)

    def axes(self, x: TensorSpec, w: TensorSpec) -> Axes:
        """Returns the geometry of both axes for filters (…, KH, KW, …).

        Raises:
            ShapeError: if they do not fit, or strides divide the image into very many phases, each
                of which is a convolution of its own.
        """
        h, v = (
            axis(x.shape[k + 1], w.shape[k + 1], stride, dilation, self.padding, zeros)
            for k, (stride, dilation, zeros) in enumerate(
                zip(self.stride, self.dilation, self.zeros, strict=True)
            )
        )
        check_phases(h, v)
        return h, v


def check_phases(*axes: Axis) -> None:
    """Raises ShapeError if strides divide the input into very many phases."""
    count = prod(min(a.size, a.stride) for a in axes)
    if count > MAX_PHASES:
        strides = " × ".join(str(a.stride) for a in axes)
        raise ShapeError(
            f"strides must give at most {MAX_PHASES} stride phases, but got {count} of {strides}"
        )


@dataclass(frozen=True, slots=True)
class VolumeAttrs(ConvAttrs):
    """A convolution of images, and stride, dilation and zeros along the depth."""

    depth_stride: int
    depth_dilation: int
    depth_zeros: tuple[int, int] = field(default=(0, 0), kw_only=True)

    def depth(self, x: TensorSpec, w: TensorSpec) -> Axis:
        """Returns the geometry of the depth."""
        stride, dilation, zeros = self.depth_stride, self.depth_dilation, self.depth_zeros
        return axis(x.shape[1], w.shape[0], stride, dilation, self.padding, zeros)


def conv_attrs(options: Options, statics: Mapping[str, Array]) -> ConvAttrs:
    return ConvAttrs(
        options.get("padding", SAME),
        (options.get("stride_h", 1), options.get("stride_w", 1)),
        (options.get("dilation_h_factor", 1), options.get("dilation_w_factor", 1)),
    )


def number_of_groups(x: TensorSpec, w: TensorSpec) -> int:
    """Returns into how many groups filters (O, KH, KW, C) divide the channels of x; usually 1."""
    if len(x.shape) != 4 or len(w.shape) != 4 or not w.shape[3] or x.shape[3] % w.shape[3]:
        return 1
    groups = x.shape[3] // w.shape[3]
    return groups if groups and w.shape[0] % groups == 0 else 1


def groups_of(s: Specs) -> int:
    """Returns the number of groups of a CONV_2D, or of its gradients."""
    x = s["x"] if "x" in s else s["dx"]
    return x.shape[3] // s["w"].shape[3]


def part_of(name: str, a: Array, k: int, groups: int) -> Array:
    """Returns the part of an operand for group k."""
    if name in IMAGES:
        size = a.shape[-1] // groups
        return a[..., k * size : (k + 1) * size]
    size = len(a) // groups
    return a[k * size : (k + 1) * size]


def geometry(attrs: ConvAttrs, s: Specs) -> Mapping[str, Any]:
    """Prepares the keyword arguments of forward kernels: both axes, and the padded images of x."""
    x = s["x"]
    h, v = attrs.axes(x, s["w"])
    return {
        "axes": (h, v),
        "source": PaddedImages(x.shape[0], (h.lo, h.hi), (v.lo, v.hi), *x.shape[1:]),
    }


def back_geometry(attrs: ConvAttrs, s: Specs) -> Mapping[str, Any]:
    """Prepares the arguments of input gradients: both axes, padded images of dy, stride phases."""
    h, v = attrs.axes(s["dx"], s["w"])
    h_lo, h_hi, h_phases = phases(h)
    v_lo, v_hi, v_phases = phases(v)
    source = PaddedImages(s["dy"].shape[0], (h_lo, h_hi), (v_lo, v_hi), *s["dy"].shape[1:])
    pairs = tuple((a, b) for a in h_phases for b in v_phases)
    return {"axes": (h, v), "source": source, "pairs": pairs}
