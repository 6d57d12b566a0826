"""Reductions over axes."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import Draw, OpInfo, Options, Reference, Refusal, Sample, away_from_zero
from op_db.support.compare import BITS, bits


def folded(fold: Callable[[Array], Array]) -> Reference:
    """All values that fall on one y as the rows of a matrix, each row folded."""

    def reference(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
        x = i["x"]
        axes = sorted({int(a) % x.ndim for a in np.ravel(o["axes"])})
        others = [k for k in range(x.ndim) if k not in axes]
        lead = [x.shape[k] for k in others]
        y = fold(x.transpose(others + axes).reshape(int(np.prod(lead)), -1)).reshape(lead)
        return {"y": np.expand_dims(y, tuple(axes)) if o.get("keep_dims", False) else y}

    return reference


def over(*axes: int) -> dict[str, Any]:
    return {"axes": np.array(axes, np.int32)}


KEEP = {"keep_dims": True}
X = (2, 3, 4)


# In float16, a sum of ones one by one stops at 2048.
HALVES = (Sample("many halves", {"x": np.ones((1, 1, 64, 64, 1), np.float16)}, {}, over(2, 3)),)


def samples() -> tuple[Sample, ...]:
    return (
        Sample("last", {"x": X}, {}, over(2)),
        Sample("last, kept", {"x": X}, KEEP, over(-1)),
        Sample("the image", {"x": (2, 2, 3, 2)}, {}, over(1, 2)),
        Sample("the image, kept", {"x": (2, 2, 3, 2)}, KEEP, over(2, 1)),
        Sample("not neighbors", {"x": (2, 2, 3, 2)}, {}, over(1, 3)),
        Sample("groups of channels", {"x": (2, 5, 3, 2, 4)}, KEEP, over(1, 2, 4)),
        Sample("all but the batch", {"x": X}, {}, over(1, 2)),
        Sample("an axis twice", {"x": X}, {}, over(1, -2)),
        Sample("the batch", {"x": X}, KEEP, over(0), mixes=True),
        Sample("everything", {"x": X}, {}, over(0, 1, 2), rebatches=False),
        Sample("no axis", {"x": X}, {}, over()),
        Sample("axis is a scalar", {"x": X}, {}, {"axes": np.array(1, np.int32)}),
        Sample("integers", {"x": np.array([[1, 2, 4], [-4, -5, 1]], np.int32)}, {}, over(1)),
    )


def row(
    name: str,
    fold: Callable[[Array], Array],
    draw: Draw = away_from_zero,
    more: tuple[Sample, ...] = (),
    refusals: tuple[Refusal, ...] = (),
) -> OpInfo:
    return OpInfo(
        name,
        folded(fold),
        (*samples(), *more),
        large=Sample("large", {"x": (32, 16, 16, 64)}, {}, over(1, 2)),
        also_large=(Sample("last", {"x": (2048, 256)}, {}, over(1)),),
        refusals=(
            Refusal("axes must be within", {"x": X}, {}, over(3)),
            Refusal("axes must be within", {"x": X}, {}, over(-4)),
            *refusals,
        ),
        draw=draw,
        loose=4,
    )


def logical(name: str, fold: Callable[[Array], Array]) -> OpInfo:
    return OpInfo(
        name,
        folded(fold),
        (
            Sample("last", {"x": BITS}, {}, over(1)),
            Sample("last, kept", {"x": BITS}, KEEP, over(-1)),
            Sample("all but the batch", {"x": BITS.reshape(2, 2, 2)}, {}, over(1, 2)),
            Sample("the batch", {"x": BITS}, KEEP, over(0), mixes=True),
            Sample("no axis", {"x": BITS}, {}, over()),
            Sample("of nothing", {"x": np.zeros((2, 0), bool)}, {}, over(1)),
        ),
        large=Sample("large", {"x": (32, 64, 1024)}, {}, over(2)),
        refusals=(Refusal("must be bool", {"x": X}, {}, over(1)),),
        draw=bits,
    )


NOTHING = (Refusal("must not be empty", {"x": (2, 0)}, {}, over(1)),)
