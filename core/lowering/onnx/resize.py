"""Resizing of images, volumes and other tensors.

What the rows of TFLite cover becomes one of them. All else is resized axis by axis: nearest values
are gathered, and others are sums with constant weights.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from odt.core.lowering.graph_builder import inverse
from odt.core.lowering.onnx.arithmetic import number
from odt.core.lowering.onnx.builder import FLOAT32, NCHW_TO_NHWC, NHWC_TO_NCHW, Use
from odt.core.model.graph import ABSENT
from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.rows.opdef import Array

NEAREST, LINEAR, CUBIC = "nearest", "linear", "cubic"
# Coordinate transformation → align_corners, half_pixel_centers.
LINEAR_FORMS = {
    "half_pixel": (False, True),
    "pytorch_half_pixel": (False, True),
    "align_corners": (True, False),
    "asymmetric": (False, False),
}
FLOOR = ("asymmetric", "floor")
ROUNDED = ("half_pixel", "round_prefer_floor")  # equals FLOOR for whole factors
CROP = "tf_crop_and_resize"
MAX_WEIGHTS = 1 << 24  # of one axis; also the largest length and scale


@dataclass(frozen=True, slots=True)
class Scaling:
    """How one axis is resized.

    Attributes:
        axis: the axis.
        before, after: lengths.
        scale: as in the file, or after / before; float32, as runtimes compute with.
        start, end: part of the axis for tf_crop_and_resize, as fractions.
    """

    axis: int
    before: int
    after: int
    scale: np.float32
    start: float = 0
    end: float = 1

    def places(self, form: str) -> Array:
        """Returns where in the old axis each new value lies."""
        n, m = np.float32(self.before), np.float32(self.after)
        out = np.arange(self.after, dtype=np.float32)
        half = np.float32(0.5)
        start, end = np.float32(self.start), np.float32(self.end)
        centers = (out + half) / self.scale - half
        last = np.maximum(m - 1, 1)
        forms: dict[str, Array] = {
            "half_pixel": centers,
            "half_pixel_symmetric": centers + n / 2 * (1 - m / (self.scale * n)),
            "pytorch_half_pixel": centers if self.after > 1 else out,
            "asymmetric": out / self.scale,
            "tf_half_pixel_for_nn": (out + half) / self.scale,
            "align_corners": out * ((n - 1) / last),
            CROP: start * (n - 1) + out * ((end - start) * (n - 1) / last),
        }
        if form not in forms:
            raise ShapeError(f"coordinate_transformation_mode must be known, but got {form}")
        if form == CROP and self.after == 1:
            forms[form] = (start + end) / 2 * (n - 1) + out
        return forms[form]


def resize(u: Use) -> int:
    """Resize, and Upsample, which has the forms of Resize before opset 11."""
    before = u.shape(0)
    is_old = u.source.kind == "Upsample" or u.opset < 11
    mode = "linear" if u.attr("mode", NEAREST) == "bilinear" else u.attr("mode", NEAREST)
    form = u.attr("coordinate_transformation_mode", "asymmetric" if is_old else "half_pixel")
    rounding = u.attr("nearest_mode", "simple" if is_old else "round_prefer_floor")
    scalings = _scalings(u, before, form)
    if not scalings:
        return u.raw(0)
    batch = next((s for s in scalings if s.axis == 0), None)
    if batch is not None and len(before) > 2:
        raise ShapeError(f"axis 0, the batch, must keep its length, but got {batch.after}")
    is_plain = not u.attr("antialias", 0) and not u.attr("exclude_outside", 0)
    has_exact_scales = all(s.scale == np.float32(s.after / s.before) for s in scalings)
    if len(before) == 4 and min(s.axis for s in scalings) > 1 and has_exact_scales and is_plain:
        y = _by_row(u, mode, form, rounding, scalings)
        if y is not None:
            return y
    x = u.input(0)
    if u.dtype(0).kind != "f" and (mode != NEAREST or form == CROP):
        raise ShapeError(f"x must be floats for {mode}, {form}, but got {u.dtype(0)}")
    outside = np.zeros((1,) * len(before), bool)
    for s in scalings:
        places = s.places(form)
        if form == CROP:
            shape = [1] * len(before)
            shape[s.axis] = s.after
            outside = outside | ((places < 0) | (places > s.before - 1)).reshape(shape)
        if mode == NEAREST:
            at = _nearest(places, rounding, s)
            x = u.b.add("GATHER", (x, u.b.constant(at)), axis=s.axis)
        else:
            x = _weighted(u, x, s.axis, _weights(u, mode, places, s))
    if outside.any():
        value = number(u, x, float(u.attr("extrapolation_value", 0.0)))
        x = u.b.add("SELECT_V2", (u.b.constant(outside, bool), value, x))
    return x


def _by_row(u: Use, mode: str, form: str, rounding: str, scalings: Sequence[Scaling]) -> int | None:
    """Resizes images (N, C, H, W) with a row of TFLite; None if it has no such form."""
    sizes = list(u.shape(0))
    has_whole_factors = True
    for s in scalings:
        sizes[s.axis] = s.after
        has_whole_factors = has_whole_factors and s.after % s.before == 0
    rounding = "floor" if rounding == "simple" and has_whole_factors else rounding
    is_floor = (form, rounding) == FLOOR or (has_whole_factors and (form, rounding) == ROUNDED)
    if mode == NEAREST and is_floor:
        op, corners, half = "RESIZE_NEAREST_NEIGHBOR", False, False
    elif mode == LINEAR and form in LINEAR_FORMS and 1 not in sizes[2:]:
        op, (corners, half) = "RESIZE_BILINEAR", LINEAR_FORMS[form]
    else:
        return None
    if u.dtype(0) != FLOAT32:
        return None
    x = u.b.transpose(u.input(0), NCHW_TO_NHWC)
    size = u.b.constant(sizes[2:])
    y = u.b.add(op, (x, size), align_corners=corners, half_pixel_centers=half)
    return u.b.transpose(y, NHWC_TO_NCHW)


def _scalings(u: Use, before: tuple[int, ...], form: str) -> list[Scaling]:
    """Returns how each axis changes whose length or scale does."""
    axes = [u.axis(k, len(before)) for k in u.ints("axes", range(len(before))) or ()]
    lengths = [before[k] for k in axes]
    if u.has(3):
        target = u.numbers(3, "sizes")
        if len(target) != len(axes) or min(target, default=0) < 1 or 0 in lengths:
            raise ShapeError(f"sizes must have {len(axes)} numbers above 0, but got {target}")
        ratios = [np.float32(m / n) for m, n in zip(target, lengths, strict=True)]
        policy = u.attr("keep_aspect_ratio_policy", "stretch")
        if policy not in ("stretch", "not_larger", "not_smaller"):
            raise ShapeError(f"keep_aspect_ratio_policy must be known, but got {policy}")
        if policy != "stretch":
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            ratios = [ratio] * len(axes)
            target = tuple(int(np.floor(ratio * n + np.float32(0.5))) for n in lengths)
    else:
        k = 1 if u.source.kind == "Upsample" or u.opset < 11 else 2
        scales = u.value(k, "scales") if u.has(k) else np.array(u.attr("scales", ()))
        if scales.dtype.kind not in "iuf":
            raise ShapeError(f"scales must be numbers, but got {scales!s:.60}")
        ratios = [np.float32(s) for s in np.ravel(scales)]
        if len(ratios) != len(axes) or not all(0 < s <= MAX_WEIGHTS for s in ratios):
            raise ShapeError(
                f"scales must be {len(axes)} numbers above 0, up to {MAX_WEIGHTS}, but got {scales}"
            )
        target = tuple(int(s * np.float32(n)) for s, n in zip(ratios, lengths, strict=True))
    if min(target, default=1) < 1 or max(target, default=1) > MAX_WEIGHTS:
        raise ShapeError(f"lengths must be 1 to {MAX_WEIGHTS}, but got {target}")
    parts = [(0.0, 1.0)] * len(axes)
    if form == CROP:
        roi = [float(n) for n in np.ravel(u.value(1, "roi"))]
        if len(roi) != 2 * len(axes):
            raise ShapeError(f"roi must have {2 * len(axes)} numbers, but got {len(roi)}")
        parts = [*zip(roi[: len(axes)], roi[len(axes) :], strict=True)]
    scalings = [
        Scaling(k, n, m, s, *part)
        for k, n, m, s, part in zip(axes, lengths, target, ratios, parts, strict=True)
    ]
    if any(s.after == s.before and s.scale != 1 for s in scalings):
        raise ShapeError(f"scales other than 1 must change lengths, but got {before} by {ratios}")
    return [s for s in scalings if (s.after, s.start, s.end) != (s.before, 0, 1)]


def _nearest(places: Array, rounding: str, s: Scaling) -> Array:
    """Returns the position of the value that each new value is."""
    if rounding == "simple":  # of opsets below 11
        rounding = "ceil" if s.scale < 1 else "floor"
    if rounding == "round_prefer_floor":
        at = np.ceil(places - np.float32(0.5))
    elif rounding == "round_prefer_ceil":
        at = np.floor(places + np.float32(0.5))
    elif rounding in ("floor", "ceil"):
        at = np.floor(places) if rounding == "floor" else np.ceil(places)
    else:
        raise ShapeError(f"nearest_mode must be known, but got {rounding}")
    return np.clip(at, 0, s.before - 1).astype(np.int64)


def _weights(u: Use, mode: str, places: Array, s: Scaling) -> Array:
    """Returns the weights (after, before) of old values in each new value."""
    if mode not in (LINEAR, CUBIC):
        raise ShapeError(f"mode must be nearest, linear or cubic, but got {mode}")
    if s.before * s.after > MAX_WEIGHTS:
        raise ShapeError(f"an axis must need at most {MAX_WEIGHTS} weights, but got {s}")
    antialias = bool(u.attr("antialias", 0))
    excludes = bool(u.attr("exclude_outside", 0))
    stretch = min(float(s.scale), 1.0) if antialias else 1.0
    reach = int(np.ceil((1 if mode == LINEAR else 2) / stretch))
    places = places.astype(np.float64)
    if mode == LINEAR and not antialias:
        places = np.clip(places, 0, s.before - 1)
    at = np.floor(places).astype(np.int64)[:, None] + np.arange(1 - reach, reach + 1)
    distance = np.abs(at - places[:, None]) * stretch
    if mode == LINEAR:
        each = np.maximum(1 - distance, 0)
    else:
        each = _cubic(distance, float(u.attr("cubic_coeff_a", -0.75)))
    if excludes:
        each = np.where((at >= 0) & (at < s.before), each, 0)
    if excludes or antialias:
        each = each / each.sum(1, keepdims=True)
    weights = np.zeros((s.after, s.before))
    rows = np.broadcast_to(np.arange(s.after)[:, None], at.shape)
    np.add.at(weights, (rows, np.clip(at, 0, s.before - 1)), each)
    return weights


def _cubic(distance: Array, a: float) -> Array:
    """Returns the weight of a value at a distance, by Keys' cubic convolution."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _weighted(u: Use, x: int, axis: int, weights: Array) -> int:
    """Returns sums of values along an axis."""
    rank = len(u.b.shape(x))
    order = [*(k for k in range(rank) if k != axis), axis]
    w = u.b.constant(weights, u.b.spec(x).dtype)
    x = u.b.transpose(x, order)
    is_vector = rank == 1
    x = u.b.reshape(x, (1, *u.b.shape(x))) if is_vector else x
    y = u.b.add("FULLY_CONNECTED", (x, w, ABSENT), keep_num_dims=True)
    y = u.b.reshape(y, u.b.shape(y)[1:]) if is_vector else y
    return u.b.transpose(y, inverse(order))


KINDS: Mapping[str, Callable[[Use], int | Sequence[int]]] = {"Resize": resize, "Upsample": resize}
