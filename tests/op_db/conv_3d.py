"""CONV_3D: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.volumes import FILTERS, VALID, dilated, places, steps


def conv_3d(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, w = i["x"], i["w"]
    n, d, h, v, _ = x.shape
    size, taps = places(o, (d, h, v), w)
    y = np.zeros((n, *size, w.shape[4]), x.dtype)
    for out, tap, at in taps:
        y[(slice(None), *out)] += x[(slice(None), *at)] @ w[tap]
    return {"y": y + i["b"] if "b" in i else y}


def made(
    label: str, x: tuple[int, ...], w: tuple[int, ...], o: Options, bias: bool = False
) -> Sample:
    inputs = {"x": x, "w": w} | ({"b": w[4:]} if bias else {})
    return Sample(label, inputs, o, {}, FILTERS)


VOLUME = {"x": (1, 3, 4, 4, 2), "w": (2, 3, 3, 2, 3)}
INFO = OpInfo(
    "CONV_3D",
    conv_3d,
    samples=(
        made("1×1×1", (2, 2, 3, 2, 3), (1, 1, 1, 3, 2), VALID, bias=True),
        made("SAME", (2, 3, 4, 3, 2), (3, 3, 2, 2, 2), {}),
        made("VALID", (1, 3, 3, 4, 2), (2, 2, 3, 2, 2), VALID, bias=True),
        made("SAME, strides", (1, 4, 5, 3, 1), (3, 2, 2, 1, 2), steps(2, 2, 1), bias=True),
        made("gaps", (1, 5, 3, 4, 1), (1, 2, 2, 1, 2), {**VALID, **steps(3, 1, 3)}),
        made("dilation", (1, 5, 4, 3, 1), (2, 2, 2, 1, 2), dilated(2, 2, 1)),
        made("more taps than images", (1, 2, 2, 2, 1), (5, 3, 3, 1, 1), {}),
        made("a stride beyond the images", (2, 2, 3, 3, 2), (1, 2, 2, 2, 1), steps(4, 1, 1)),
        made("taps around the images", (1, 2, 3, 2, 1), (2, 2, 2, 1, 2), dilated(5, 1, 1), True),
    ),
    large=made("large", (68, 2, 8, 8, 16), (3, 3, 3, 16, 16), {}, bias=True),
    also_large=(
        made("colors", (16, 4, 17, 16, 3), (3, 3, 3, 3, 16), {}, bias=True),
        made("tiles", (3, 4, 17, 16, 48), (3, 3, 3, 48, 32), {}, bias=True),
        made("strides", (2, 8, 25, 20, 34), (3, 2, 3, 34, 18), steps(2, 2, 1), bias=True),
    ),
    refusals=(
        Refusal("one C", {**VOLUME, "w": (2, 3, 3, 1, 3)}),
        Refusal("not empty", {**VOLUME, "w": (2, 3, 3, 2, 0)}),
        Refusal("5 axes", {**VOLUME, "x": (3, 4, 4, 2)}),
        Refusal("b must be", {**VOLUME, "b": (2,)}),
        Refusal("1 or more", VOLUME, steps(0, 1, 1)),
        Refusal("must fit", {**VOLUME, "x": (1, 1, 4, 4, 2)}, VALID),
        Refusal("stride phases", {**VOLUME, "x": (1, 40, 40, 40, 2)}, steps(40, 40, 40)),
    ),
    loose=4,
)
