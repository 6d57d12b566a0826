"""Convolutions and pools, as loops over windows from their published definitions."""

from collections.abc import Iterator, Mapping
from math import ceil

import numpy as np

from odt.kernels.opdef import Array, TensorSpec
from op_db import OpInfo, Options, Refusal, Sample, distinct

VALID = {"padding": 1}
FILTERS = ("w", "b")
INT32 = np.dtype(np.int32)


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


def conv(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, w = i["x"], i["w"]
    size, taps = places(o, x, (w.shape[1], w.shape[2]))
    y = np.zeros((x.shape[0], *size, w.shape[0]), x.dtype)
    for p, q, m, n, h, v in taps:
        y[:, p, q] += x[:, h, v] @ w[:, m, n].T
    return {"y": y + i["b"] if "b" in i else y}


def depthwise(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, w = i["x"], i["w"]
    multiplier = w.shape[3] // x.shape[3]
    size, taps = places(o, x, (w.shape[1], w.shape[2]))
    y = np.zeros((x.shape[0], *size, w.shape[3]), x.dtype)
    for p, q, m, n, h, v in taps:
        y[:, p, q] += np.repeat(x[:, h, v], multiplier, axis=1) * w[0, m, n]
    return {"y": y + i["b"] if "b" in i else y}


def pool(o: Options, i: Mapping[str, Array], greatest: bool) -> Mapping[str, Array]:
    x = i["x"]
    size, taps = places(o, x, (o["filter_height"], o["filter_width"]))
    best = np.full((x.shape[0], *size, x.shape[3]), -np.inf, x.dtype)
    total, count = np.zeros_like(best), np.zeros((*size, 1))
    for p, q, _, _, h, v in taps:
        best[:, p, q] = np.maximum(best[:, p, q], x[:, h, v])
        total[:, p, q] += x[:, h, v]
        count[p, q] += 1
    return {"y": best if greatest else total / count}


def max_pool(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return pool(o, i, greatest=True)


def average_pool(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return pool(o, i, greatest=False)


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
ROWS: tuple[OpInfo, ...] = (
    OpInfo(
        "CONV_2D",
        conv,
        samples=(
            filtered("1×1", (2, 3, 2, 3), (4, 1, 1, 3), VALID, 4),
            filtered("1×1, stride 2", (2, 4, 3, 2), (3, 1, 1, 2), strides(2, 2), 0),
            filtered("SAME", (2, 4, 5, 2), (3, 3, 3, 2), {}, 3),
            filtered("VALID", (2, 4, 5, 2), (3, 3, 2, 2), VALID, 0),
            filtered("SAME, stride 2", (2, 5, 4, 2), (2, 3, 3, 2), strides(2, 2), 2),
            filtered(
                "VALID, stride 2, 3", (1, 6, 7, 1), (2, 2, 3, 1), {**VALID, **strides(2, 3)}, 2
            ),
            filtered("stride above kernel", (1, 7, 7, 1), (2, 2, 2, 1), strides(3, 4), 0),
            filtered("dilation", (1, 6, 7, 2), (2, 3, 2, 2), dilations(2, 3), 2),
            filtered(
                "dilation, VALID", (2, 6, 5, 1), (2, 3, 3, 1), {**VALID, **dilations(2, 2)}, 0
            ),
            filtered(
                "stride and dilation",
                (1, 7, 6, 1),
                (2, 3, 3, 1),
                {**strides(2, 3), **dilations(3, 2)},
                2,
            ),
            filtered(
                "stride and dilation with a common factor",
                (1, 9, 8, 1),
                (2, 3, 2, 1),
                {**strides(2, 4), **dilations(2, 2)},
                0,
            ),
            filtered("even kernel, SAME", (1, 3, 3, 1), (1, 2, 4, 1), {}, 1),
            filtered("kernel above image, SAME", (1, 2, 2, 1), (1, 5, 5, 1), {}, 0),
            filtered("whole image", (2, 3, 3, 2), (4, 3, 3, 2), VALID, 4),
        ),
        large=filtered("rows", (2, 64, 64, 16), (8, 3, 3, 16), {}, 8),
        also_large=(
            filtered("images", (70, 14, 14, 8), (16, 3, 3, 8), strides(2, 1), 16),
            filtered("1×1", (8, 32, 32, 16), (32, 1, 1, 16), {}, 32),
        ),
        refusals=(
            Refusal("with one C", {"x": (1, 4, 4, 2), "w": (3, 3, 3, 1)}),
            Refusal("(N, H, W, C)", {"x": (4, 4, 2), "w": (3, 3, 3, 2)}),
            Refusal("b must be", {"x": (1, 4, 4, 2), "w": (3, 3, 3, 2), "b": (2,)}),
            Refusal("with one C", {"x": TensorSpec((1, 4, 4, 2), INT32), "w": (3, 3, 3, 2)}),
            Refusal("", {"x": (1, 2, 2, 2), "w": (3, 3, 3, 2)}, VALID),
            Refusal("", {"x": (1, 4, 4, 2), "w": (3, 3, 3, 2)}, BAD_STRIDE),
            Refusal("", {"x": (1, 4, 4, 2), "w": (3, 3, 3, 2)}, dilations(1, 0)),
            Refusal("", {"x": (1, 4, 4, 2), "w": (3, 3, 3, 2)}, {"padding": 7}),
        ),
        loose=4,
    ),
    OpInfo(
        "DEPTHWISE_CONV_2D",
        depthwise,
        samples=(
            filtered("SAME", (2, 4, 5, 3), (1, 3, 3, 3), {}, 3),
            filtered("VALID, multiplier 2", (2, 4, 5, 2), (1, 3, 2, 4), VALID, 4),
            filtered("one channel to many", (2, 4, 3, 1), (1, 3, 3, 5), {}, 0),
            filtered("stride 2", (2, 5, 4, 2), (1, 3, 3, 2), strides(2, 2), 2),
            filtered("stride 2, 3, multiplier 2", (1, 6, 7, 2), (1, 2, 3, 4), strides(2, 3), 0),
            filtered("stride above kernel", (1, 7, 7, 2), (1, 2, 2, 2), strides(3, 4), 0),
            filtered("dilation", (1, 6, 7, 2), (1, 3, 2, 2), dilations(2, 3), 2),
            filtered(
                "stride and dilation",
                (1, 7, 6, 1),
                (1, 3, 3, 2),
                {**VALID, **strides(2, 1), **dilations(3, 2)},
                2,
            ),
            filtered(
                "stride and dilation with a common factor",
                (1, 9, 8, 2),
                (1, 3, 2, 2),
                {**strides(2, 4), **dilations(2, 2)},
                0,
            ),
            filtered("kernel above image", (1, 2, 2, 2), (1, 5, 5, 2), {}, 0),
            filtered(
                "wrong multiplier in file", (1, 3, 3, 2), (1, 2, 2, 4), {"depth_multiplier": 1}, 4
            ),
        ),
        large=filtered("large", (5, 64, 64, 16), (1, 3, 3, 16), {}, 16),
        also_large=(
            filtered("multiplier", (9, 32, 32, 16), (1, 3, 3, 32), strides(2, 2), 32),
            filtered("images", (70, 12, 12, 16), (1, 3, 3, 16), VALID, 16),
        ),
        refusals=(
            Refusal("C·M", {"x": (1, 4, 4, 2), "w": (1, 3, 3, 3)}),
            Refusal("C·M", {"x": (1, 4, 4, 2), "w": (2, 3, 3, 2)}),
            Refusal("b must be", {"x": (1, 4, 4, 2), "w": (1, 3, 3, 4), "b": (2,)}),
            Refusal("", {"x": (1, 2, 2, 2), "w": (1, 3, 3, 2)}, VALID),
            Refusal("", {"x": (1, 4, 4, 2), "w": (1, 3, 3, 2)}, BAD_STRIDE),
        ),
        loose=4,
    ),
    *(
        OpInfo(
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
            ),
            large=pooled("large", (9, 64, 64, 16), {**window(3, 3), **strides(2, 2)}),
            also_large=(pooled("images", (90, 12, 12, 16), {**window(2, 2), **VALID}),),
            draw=distinct,
            refusals=(
                Refusal("(N, H, W, C)", {"x": (4, 4, 2)}, window(2, 2)),
                Refusal("float", {"x": TensorSpec((1, 4, 4, 2), INT32)}, window(2, 2)),
                Refusal("", {"x": (1, 2, 2, 2)}, {**window(3, 3), **VALID}),
                Refusal("", {"x": (1, 4, 4, 2)}, {**window(2, 2), **BAD_STRIDE}),
                Refusal("", {"x": (1, 4, 4, 2)}, window(0, 2)),
            ),
        )
        for name, reference in (("MAX_POOL_2D", max_pool), ("AVERAGE_POOL_2D", average_pool))
    ),
)
