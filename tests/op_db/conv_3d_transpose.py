"""CONV_3D_TRANSPOSE: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.indices import ints
from op_db.support.volumes import FILTERS, VALID, dilated, places, steps


def conv_3d_transpose(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """Adds each value of x, times the filters, to the places that a CONV_3D would read for it."""
    x, w = i["x"], i["w"]
    n, d, h, v, units = (int(k) for k in o["output_shape"])
    y = np.zeros((n, d, h, v, units), x.dtype)
    for out, tap, at in places(o, (d, h, v), w)[1]:
        y[(slice(None), *at)] += x[(slice(None), *out)] @ w[tap].T
    return {"y": y + i["b"] if "b" in i else y}


def made(
    label: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    size: tuple[int, int, int],
    o: Options,
    bias: bool = False,
) -> Sample:
    """To an output of this depth, height and width."""
    inputs = {"w": w, "x": x} | ({"b": w[3:4]} if bias else {})
    return Sample(label, inputs, o, ints(output_shape=[x[0], *size, w[3]]), FILTERS)


VOLUME = {"w": (2, 3, 3, 3, 2), "x": (1, 3, 4, 4, 2)}
INFO = OpInfo(
    "CONV_3D_TRANSPOSE",
    conv_3d_transpose,
    samples=(
        made("1×1×1", (2, 2, 3, 2, 3), (1, 1, 1, 2, 3), (2, 3, 2), VALID, bias=True),
        made("SAME", (2, 3, 4, 3, 2), (3, 3, 2, 2, 2), (3, 4, 3), {}),
        made("VALID", (1, 2, 2, 2, 2), (2, 2, 3, 3, 2), (3, 3, 4), VALID, bias=True),
        made("strides", (1, 2, 3, 3, 1), (3, 2, 2, 2, 1), (4, 5, 3), steps(2, 2, 1), bias=True),
        made("gaps", (1, 2, 2, 2, 1), (1, 2, 2, 1, 1), (4, 3, 5), {**VALID, **steps(3, 1, 3)}),
        made("one image", (2, 1, 3, 3, 2), (1, 2, 2, 1, 2), (2, 3, 3), steps(4, 1, 1), True),
        made("around", (1, 2, 3, 2, 2), (2, 2, 2, 1, 2), (2, 3, 2), dilated(5, 1, 1), True),
        made("dilation", (1, 5, 4, 3, 1), (2, 2, 2, 2, 1), (5, 4, 3), dilated(2, 2, 1)),
    ),
    large=made("large", (68, 2, 8, 8, 16), (3, 3, 3, 16, 16), (2, 8, 8), {}, bias=True),
    also_large=(made("tiles", (3, 4, 17, 16, 48), (3, 3, 3, 32, 48), (4, 17, 16), {}, bias=True),),
    refusals=(
        Refusal("one C", {**VOLUME, "x": (1, 3, 4, 4, 1)}, {}, ints(output_shape=[1, 3, 4, 4, 3])),
        Refusal("b must be", {**VOLUME, "b": (2,)}, {}, ints(output_shape=[1, 3, 4, 4, 3])),
        Refusal("(N, OD, OH, OW, O)", VOLUME, {}, ints(output_shape=[1, 3, 4, 4, 2])),
        Refusal("(N, OD, OH, OW, O)", VOLUME, {}, ints(output_shape=[3, 4, 4, 3])),
        Refusal("depth, height", VOLUME, {}, ints(output_shape=[1, 4, 4, 4, 3])),
    ),
    loose=4,
)
