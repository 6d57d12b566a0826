"""CUSTOM:Landmarks2TransformMatrix: matrix that maps a crop around landmarks to the image.

x (N, L, 3) in pixels    y (N, 4, 4)

R(r) is the rotation by r = target − atan2(Δ₁, Δ₀), with Δ the difference of landmarks `right` and
`left`. The crop is a box around the rotated landmarks (u, v) = R(r) (x₀, x₁) of the subset. With
w = u₊ − u₋, h = v₊ − v₋, scales sx and sy of the box, and EX × EY pixels of the crop, y is an
identity but for

(y₀₀ y₀₁ y₀₃)          ( w sx / EX      0      (u₊ + u₋ − w sx) / 2 )
(y₁₀ y₁₁ y₁₃) = R(−r)  (     0      h sy / EY  (v₊ + v₋ − h sy) / 2 )

dx is the derivative by the two landmarks of the line and the four at the sides of the box, the
first ones of equal values; x₂ has none.

Version 1: x (N, 1, 1, 3 L), atan(Δ₁ / Δ₀) instead of atan2, EX and EY are one less, and the rows
are multiplied by (image size − 1) / range of the landmarks.
Source: landmarks_to_transform_matrix.cc in MediaPipe.
"""

from collections.abc import Mapping
from math import atan2, cos, pi, sin

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.geometry.flex_map import has_field, unpack_map
from odt.kernels.rows.opdef import Array, Kernel, OpDef, Options, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class CropAttrs:
    """The landmarks of a crop, and its size; pairs are (horizontal, vertical).

    Attributes:
        left, right: landmarks of the line that is turned to the angle `target`, in radians.
        subset: landmarks that the box contains.
        scale: by how much the box is enlarged.
        extent: size of the crop, in pixels.
        gain: factors of the rows of the matrix.
        half_turns: whether the angle of the line is known up to half a turn only.
    """

    left: int
    right: int
    subset: tuple[int, ...]
    target: float
    scale: tuple[float, float]
    extent: tuple[float, float]
    gain: tuple[float, float] = (1.0, 1.0)
    half_turns: bool = False


LINE = {"left_rotation_idx": 1, "right_rotation_idx": 1}
BOX = {"subset_idxs": None, "target_rotation_radians": 1, "scale_x": 1, "scale_y": 1}
SIZE = {"output_height": 1, "output_width": 1}
VERSION_1 = {
    "input_hw": 2,
    "output_hw": 2,
    "dimensions": 1,
    "landmarks_range": 1,
    "bbox_size_multiplier": 1,
    "subset": None,
}


def attrs(options: Options, statics: Mapping[str, Array]) -> CropAttrs:
    if has_field(options, "input_hw"):
        return attrs_1(options)
    fields = unpack_map(options, {**LINE, **BOX, **SIZE})
    return CropAttrs(
        int(fields["left_rotation_idx"][0]),
        int(fields["right_rotation_idx"][0]),
        tuple(map(int, fields["subset_idxs"])),
        fields["target_rotation_radians"][0],
        (fields["scale_x"][0], fields["scale_y"][0]),
        (fields["output_width"][0], fields["output_height"][0]),
    )


def attrs_1(options: Options) -> CropAttrs:
    fields = unpack_map(options, {**LINE, **VERSION_1})
    (scale,), (span,) = fields["bbox_size_multiplier"], fields["landmarks_range"]
    if fields["dimensions"] != (3,) or span <= 0:
        raise ShapeError(
            "dimensions must be 3 and landmarks_range above 0, "
            f"but got {fields['dimensions'][0]:g} and {span:g}"
        )
    (height, width), (down, across) = fields["output_hw"], fields["input_hw"]
    return CropAttrs(
        int(fields["left_rotation_idx"][0]),
        int(fields["right_rotation_idx"][0]),
        tuple(map(int, fields["subset"])),
        0.0,
        (scale, scale),
        (width - 1, height - 1),
        ((across - 1) / span, (down - 1) / span),
        half_turns=True,
    )


def infer(attrs: CropAttrs, s: Specs) -> Specs:
    x = s["x"]
    rank = 4 if attrs.half_turns else 3
    count = x.size // max(3 * x.shape[0], 1) if x.shape else 0
    if (
        len(x.shape) != rank
        or x.dtype.kind != "f"
        or x.shape[1:] not in ((count, 3), (1, 1, 3 * count))
    ):
        raise ShapeError(
            f"x must be (N, L, 3), or (N, 1, 1, 3 L) in version 1, of a float type, but got {x}"
        )
    used = (attrs.left, attrs.right, *attrs.subset)
    if not attrs.subset or min(used) < 0 or max(used) >= count:
        raise ShapeError(
            f"the landmarks must be 0 … {count - 1}, and one or more in the subset, "
            f"but got {min(used)} … {max(used)}, {len(attrs.subset)} in the subset"
        )
    if min(*attrs.extent, *attrs.scale) <= 0:
        raise ShapeError(
            "the scales and the size of the crop must be above 0 (in version 1, its size above 1), "
            f"but got {attrs.scale}, {attrs.extent}"
        )
    return {"y": TensorSpec((x.shape[0], 4, 4), x.dtype)}


def landmarks(x: Array) -> Array:
    """Reshapes to (N, L, 3)."""
    return x.reshape(len(x), -1, 3, copy=False)


def line(attrs: CropAttrs, x: Array) -> tuple[float, float]:
    """Returns the difference of the two landmarks of the line."""
    across, down = (float(x[attrs.right, k]) - float(x[attrs.left, k]) for k in (0, 1))
    return across, down


def turned(attrs: CropAttrs, x: Array) -> tuple[float, float, Array]:
    """Returns cos r, sin r, and the landmarks of the subset in the box's axes, (2, …)."""
    across, down = line(attrs, x)
    angle = atan2(down, across)
    if attrs.half_turns:
        angle -= pi * round(angle / pi)
    c, s = cos(attrs.target - angle), sin(attrs.target - angle)
    return c, s, np.array([[c, -s], [s, c]]) @ x[attrs.subset, :2].T


def crop(attrs: CropAttrs, box: Array) -> Array:
    """Returns the matrix (2, 3) from a crop to its box."""
    low, high = box.min(axis=1), box.max(axis=1)
    size = (high - low) * attrs.scale
    return np.column_stack([np.diag(size / attrs.extent), (low + high - size) / 2])


def forward(attrs: CropAttrs, *, x: Array, y: Array) -> None:
    y[:] = np.eye(4)
    for points, out in zip(landmarks(x), y, strict=True):
        c, s, box = turned(attrs, points)
        rows = np.array([[c, s], [-s, c]]) @ crop(attrs, box)
        out[:2, [0, 1, 3]] = rows * np.reshape(attrs.gain, (2, 1))


def grad_x(attrs: CropAttrs, *, dy: Array, x: Array, dx: Array) -> None:
    dx.fill(0)
    for points, out, into in zip(landmarks(x), dy, landmarks(dx), strict=True):
        c, s, box = turned(attrs, points)
        rows = out[:2, [0, 1, 3]] * np.reshape(attrs.gain, (2, 1))
        dr = np.sum(rows * (np.array([[-s, c], [-c, -s]]) @ crop(attrs, box)))
        dcrop = np.array([[c, -s], [s, c]]) @ rows
        for k in (0, 1):
            dsize = attrs.scale[k] * (dcrop[k, k] / attrs.extent[k] - dcrop[k, 2] / 2)
            for at, side in ((box[k].argmax(), dsize), (box[k].argmin(), -dsize)):
                d = side + dcrop[k, 2] / 2
                into[attrs.subset[at], :2] += d * np.array(((c, -s), (s, c))[k])
                dr += d * (-box[1, at], box[0, at])[k]
        across, down = line(attrs, points)
        if across or down:  # a line of length 0 has no angle
            dline = dr * np.array([down, -across]) / (across**2 + down**2)
            into[attrs.right, :2] += dline
            into[attrs.left, :2] -= dline


OP = OpDef(
    "CUSTOM:Landmarks2TransformMatrix",
    inputs=("x",),
    infer=infer,
    forward=Kernel(forward, reads=("x",), writes=("y",)),
    grads={"x": Kernel(grad_x, reads=("dy", "x"), writes=("dx",))},
    attrs=attrs,
)
