"""Convolutions and pools, as loops over windows."""

from collections.abc import Iterator, Mapping
from math import ceil

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import INT32, OpInfo, Options, Reference, Refusal, Sample, distinct

VALID = {"padding": 1}
FILTERS = ("w", "b")


def geometry(size: int, kernel: int, stride: int, dilation: int, same: bool) -> tuple[int, int]:
    """Outputs and padding in front, as TensorFlow's padding notes define SAME and VALID."""
    reach = (kernel - 1) * dilation + 1
    if not same:
        return ceil((size - reach + 1) / stride), 0
    out = ceil(size / stride)
    return out, max((out - 1) * stride + reach - size, 0) // 2


def places(
    o: Options, x: Array, kernel: tuple[int, int]
) -> tuple[tuple[int, int], Iterator[tuple[int, int, int, int, int, int]]]:
    """Output size; and (oh, ow, kh, kw, ih, iw) for every tap inside the image."""
    same = o.get("padding", 0) == 0
    steps = (o.get("stride_h", 1), o.get("stride_w", 1))
    gaps = (o.get("dilation_h_factor", 1), o.get("dilation_w_factor", 1))
    (oh, ph), (ow, pw) = (
        geometry(x.shape[k + 1], kernel[k], steps[k], gaps[k], same) for k in (0, 1)
    )

    def all_places() -> Iterator[tuple[int, int, int, int, int, int]]:
        for p, q, i, j in np.ndindex(oh, ow, *kernel):
            h = p * steps[0] + i * gaps[0] - ph
            w = q * steps[1] + j * gaps[1] - pw
            if 0 <= h < x.shape[1] and 0 <= w < x.shape[2]:
                yield p, q, i, j, h, w

    return (oh, ow), all_places()


def pool(o: Options, i: Mapping[str, Array], greatest: bool) -> Mapping[str, Array]:
    x = i["x"]
    size, taps = places(o, x, (o["filter_height"], o["filter_width"]))
    least = np.iinfo(x.dtype).min if x.dtype.kind == "i" else -np.inf
    best = np.full((x.shape[0], *size, x.shape[3]), least, x.dtype)
    total, count = np.zeros_like(best), np.zeros((*size, 1), x.dtype)
    for p, q, _, _, h, v in taps:
        best[:, p, q] = np.maximum(best[:, p, q], x[:, h, v])
        total[:, p, q] += x[:, h, v]
        count[p, q] += 1
    return {"y": best if greatest else total / count}


def strides(h: int, w: int) -> Options:
    return {"stride_h": h, "stride_w": w}


def dilations(h: int, w: int) -> Options:
    return {"dilation_h_factor": h, "dilation_w_factor": w}


def window(h: int, w: int) -> Options:
    return {"filter_height": h, "filter_width": w}


def filtered(label: str, x: tuple[int, ...], w: tuple[int, ...], o: Options, units: int) -> Sample:
    """With a bias if units is not 0."""
    inputs = {"x": x, "w": w} | ({"b": (units,)} if units else {})
    return Sample(label, inputs, o, {}, FILTERS)


def pooled(label: str, x: tuple[int, ...], o: Options) -> Sample:
    return Sample(label, {"x": x}, o)


BAD_STRIDE = strides(0, 1)


def pool_info(name: str, reference: Reference) -> OpInfo:
    return OpInfo(
        name,
        reference,
        samples=(
            pooled("VALID", (2, 4, 6, 2), {**window(2, 2), **strides(2, 2), **VALID}),
            pooled("SAME", (2, 5, 4, 2), {**window(3, 2), **strides(2, 2)}),
            pooled("overlapping", (2, 5, 4, 1), {**window(3, 3), **VALID}),
            pooled("overlapping, SAME", (1, 4, 3, 2), window(3, 3)),
            pooled("gaps", (1, 7, 8, 1), {**window(2, 2), **strides(3, 3), **VALID}),
            pooled("whole image", (2, 3, 4, 2), {**window(3, 4), **VALID}),
            pooled("window above image", (1, 2, 2, 2), window(5, 5)),
            pooled("window far above image", (2, 5, 4, 2), {**window(40, 23), **strides(1, 2)}),
            pooled("window above image, apart", (1, 7, 3, 1), {**window(21, 17), **strides(3, 5)}),
            pooled("large window, SAME", (1, 20, 19, 1), {**window(16, 17), **strides(2, 3)}),
            pooled("part of a vector", (1, 4, 4, 22), {**window(2, 2), **strides(2, 2), **VALID}),
            pooled("part of a vector, overlapping", (1, 3, 4, 22), {**window(2, 2), **VALID}),
        ),
        large=pooled("large", (9, 64, 64, 16), {**window(3, 3), **strides(2, 2)}),
        also_large=(
            pooled("images", (90, 12, 12, 16), {**window(2, 2), **VALID}),
            pooled("apart", (36, 12, 13, 40), {**window(2, 2), **strides(2, 2), **VALID}),
        ),
        draw=distinct,
        refusals=(
            Refusal("(N, H, W, C)", {"x": (4, 4, 2)}, window(2, 2)),
            Refusal("float", {"x": TensorSpec((1, 4, 4, 2), INT32)}, window(2, 2)),
            Refusal("", {"x": (1, 2, 2, 2)}, {**window(3, 3), **VALID}),
            Refusal("", {"x": (1, 4, 4, 2)}, {**window(2, 2), **BAD_STRIDE}),
            Refusal("", {"x": (1, 4, 4, 2)}, window(0, 2)),
        ),
    )
