"""TRANSPOSE_CONV: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import INT32, OpInfo, Options, Refusal, Sample
from op_db.support.windows import FILTERS, VALID, geometry, strides


def transpose_conv(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, w = i["x"], i["w"]
    _, rows, cols, units = (int(n) for n in o["output_shape"])
    steps = (o.get("stride_h", 1), o.get("stride_w", 1))
    same = o.get("padding", 0) == 0
    top = geometry(rows, w.shape[1], steps[0], 1, same)[1]
    left = geometry(cols, w.shape[2], steps[1], 1, same)[1]
    y = np.zeros((x.shape[0], rows, cols, units))
    for p, q, m, n in np.ndindex(*x.shape[1:3], *w.shape[1:3]):
        h, v = p * steps[0] + m - top, q * steps[1] + n - left
        if 0 <= h < rows and 0 <= v < cols:
            y[:, h, v] += x[:, p, q] @ w[:, m, n].T
    return {"y": y + i["b"] if "b" in i else y}


def made(
    label: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    size: tuple[int, int],
    o: Options,
    bias: bool = False,
) -> Sample:
    """To an output of this height and width."""
    inputs = {"w": w, "x": x} | ({"b": w[:1]} if bias else {})
    return Sample(label, inputs, o, to(x[0], *size, w[0]), FILTERS)


def to(*shape: int) -> Options:
    return {"output_shape": np.array(shape, np.int32)}


IMAGE = {"w": (3, 3, 3, 2), "x": (1, 4, 4, 2)}
INFO = OpInfo(
    "TRANSPOSE_CONV",
    transpose_conv,
    samples=(
        made("1×1", (2, 3, 2, 3), (4, 1, 1, 3), (3, 2), VALID, True),
        made("SAME", (2, 4, 3, 2), (3, 3, 3, 2), (4, 3), {}),
        made("VALID", (2, 3, 2, 2), (3, 3, 2, 2), (5, 3), VALID, True),
        made("SAME, stride 2", (2, 3, 2, 2), (2, 3, 3, 2), (6, 4), strides(2, 2), True),
        made("SAME, stride 2, odd", (1, 3, 2, 2), (2, 4, 4, 2), (5, 3), strides(2, 2)),
        made("VALID, stride 2, 3", (1, 3, 2, 1), (2, 3, 4, 1), (7, 7), {**VALID, **strides(2, 3)}),
        made("windows side by side", (2, 3, 5, 3), (2, 2, 3, 3), (6, 15), strides(2, 3), True),
        made(
            "side by side, no bias", (2, 2, 3, 2), (1, 2, 2, 2), (4, 6), {**VALID, **strides(2, 2)}
        ),
        made("few filters", (1, 2, 2, 22), (2, 2, 3, 22), (3, 4), VALID),
        made("rows that nothing reaches", (1, 2, 2, 1), (2, 2, 2, 1), (5, 7), strides(3, 4)),
        made(
            "beyond the last window",
            (1, 2, 2, 1),
            (1, 2, 2, 1),
            (5, 5),
            {**VALID, **strides(2, 2)},
        ),
        made("from one", (2, 1, 1, 3), (2, 4, 3, 3), (4, 3), VALID, True),
    ),
    large=made("rows", (2, 64, 64, 16), (8, 3, 3, 16), (128, 128), strides(2, 2), True),
    also_large=(
        made("images", (70, 7, 7, 8), (12, 3, 3, 8), (14, 14), strides(2, 2), True),
        made("stride 1", (12, 32, 32, 8), (8, 3, 3, 8), (34, 34), VALID),
        made("side by side", (3, 64, 64, 8), (3, 2, 2, 8), (128, 128), strides(2, 2), True),
    ),
    refusals=(
        Refusal("with one C", {**IMAGE, "w": (3, 3, 3, 1)}, {}, to(1, 4, 4, 3)),
        Refusal("(N, H, W, C)", {**IMAGE, "x": (4, 4, 2)}, {}, to(1, 4, 4, 3)),
        Refusal("b must be", {**IMAGE, "b": (2,)}, {}, to(1, 4, 4, 3)),
        Refusal("one C", {**IMAGE, "x": TensorSpec((1, 4, 4, 2), INT32)}, {}, to(1, 4, 4, 3)),
        Refusal("output_shape must be", IMAGE, {}, to(4, 4)),
        Refusal("output_shape must be", IMAGE, {}, to(1, 0, 4, 3)),
        Refusal("output_shape must be", IMAGE, {}, to(2, 4, 4, 3)),
        Refusal("output_shape must be", IMAGE, {}, to(1, 4, 4, 2)),
        Refusal("height and width", IMAGE, {}, to(1, 4, 5, 3)),
        Refusal("height and width", IMAGE, strides(2, 2), to(1, 9, 8, 3)),
        Refusal("1 or more", IMAGE, strides(0, 1), to(1, 4, 4, 3)),
        Refusal("must fit", IMAGE, VALID, to(1, 2, 4, 3)),
    ),
    loose=4,
)
