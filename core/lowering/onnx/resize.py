"""Resizing of images."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from odt.core.lowering.onnx.builder import NCHW_TO_NHWC, NHWC_TO_NCHW, Use
from odt.errors import ShapeError

NEAREST, LINEAR = "nearest", "linear"
# Coordinate transformation → align_corners, half_pixel_centers.
LINEAR_FORMS = {
    "half_pixel": (False, True),
    "pytorch_half_pixel": (False, True),
    "align_corners": (True, False),
    "asymmetric": (False, False),
}
FLOOR = ("asymmetric", "floor")
ROUNDED = ("half_pixel", "round_prefer_floor")  # equals FLOOR for whole factors


def resize(u: Use) -> int:
    before = u.shape(0)
    sizes = _sizes(u, before)
    if len(before) != 4 or sizes[:2] != before[:2]:
        raise ShapeError(f"x must be (N, C, H, W) and keep N and C, but got {before}, {sizes}")
    if sizes == before:
        return u.raw(0)
    old = u.source.kind == "Upsample" or u.opset < 11
    mode = "linear" if u.attr("mode", NEAREST) == "bilinear" else u.attr("mode", NEAREST)
    form = u.attr("coordinate_transformation_mode", "asymmetric" if old else "half_pixel")
    rounding = u.attr("nearest_mode", "floor" if old else "round_prefer_floor")
    if u.attr("antialias", 0) or u.attr("exclude_outside", 0):
        raise ShapeError("antialias and exclude_outside must be 0, but got 1")
    whole = all(m % n == 0 for m, n in zip(sizes, before, strict=True))
    if mode == NEAREST and ((form, rounding) == FLOOR or (whole and (form, rounding) == ROUNDED)):
        op, corners, half = "RESIZE_NEAREST_NEIGHBOR", False, False
    elif mode == LINEAR and form in LINEAR_FORMS and 1 not in sizes[2:]:
        op, (corners, half) = "RESIZE_BILINEAR", LINEAR_FORMS[form]
    else:
        raise ShapeError(f"must have a form that odt trains, but got {mode}, {form}, {rounding}")
    x = u.b.transpose(u.input(0), NCHW_TO_NHWC)
    size = u.b.constant(sizes[2:])
    y = u.b.add(op, (x, size), align_corners=corners, half_pixel_centers=half)
    return u.b.transpose(y, NHWC_TO_NCHW)


def _sizes(u: Use, before: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of the result, which sizes or scales give."""
    axes = [u.axis(k, len(before)) for k in u.ints("axes", range(len(before))) or ()]
    if u.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise ShapeError("keep_aspect_ratio_policy must be stretch, but got another")
    sizes = list(before)
    if u.has(3):
        lengths = u.numbers(3, "sizes")
    else:
        at = 1 if u.source.kind == "Upsample" or u.opset < 11 else 2
        scales = u.value(at, "scales") if u.has(at) else np.array(u.attr("scales", ()))
        if scales.size != len(axes):
            raise ShapeError(f"scales must have {len(axes)} numbers, but got {scales.size}")
        exact = [before[k] * float(s) for k, s in zip(axes, np.ravel(scales), strict=True)]
        lengths = tuple(int(np.floor(n + 1e-4)) for n in exact)
        if any(abs(n - m) > 1e-3 for n, m in zip(exact, lengths, strict=True)):
            raise ShapeError(f"scales must give whole numbers, but got {exact}")
    if len(lengths) != len(axes) or min(lengths, default=1) < 1:
        raise ShapeError(f"sizes must have {len(axes)} numbers above 0, but got {lengths}")
    for k, n in zip(axes, lengths, strict=True):
        sizes[k] = n
    return tuple(sizes)


KINDS: Mapping[str, Callable[[Use], int | Sequence[int]]] = {"Resize": resize, "Upsample": resize}
