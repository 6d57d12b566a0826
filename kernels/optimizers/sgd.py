"""Stochastic gradient descent, optionally with momentum or Nesterov momentum.

g ← g + λ p                         weight decay λ
m ← μ m + g  (m = g at first)       momentum μ
p ← p − lr · (g + μ m)              with Nesterov momentum
p ← p − lr · m                      otherwise; without momentum p ← p − lr · g

Source: torch.optim.SGD (dampening 0); without momentum and decay equal to onert's SGD.
"""

import numpy as np

from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.kernels.rows.opdef import TILE, Array
from odt.kernels.rows.updatedef import (
    WEIGHT_DECAY,
    CompiledUpdate,
    HyperParameter,
    Rows,
    UpdateRule,
)


@dataclass(frozen=True, slots=True)
class SgdAttrs:
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if self.nesterov and not self.momentum:
            raise OptionError("nesterov", "needs a momentum above 0", 0, "Give `momentum=`.")


def slots(attrs: SgdAttrs) -> tuple[str, ...]:
    return ("momentum",) if attrs.momentum else ()


def run(
    attrs: SgdAttrs,
    learning_rate: float,
    step: int,
    *,
    p: Array,
    g: Array,
    work: Array,
    momentum: Array | None = None,
) -> None:
    for at in range(0, p.size, TILE):
        tile = slice(at, at + TILE)
        pt, gt, wt = p[tile], g[tile], work[0, : min(TILE, p.size - at)]
        if attrs.weight_decay:
            np.multiply(pt, attrs.weight_decay, out=wt)
            np.add(gt, wt, out=gt)
        if momentum is not None:
            mt = momentum[tile]
            np.multiply(mt, attrs.momentum, out=mt)
            np.add(mt, gt, out=mt)
            if attrs.nesterov:
                np.multiply(mt, attrs.momentum, out=wt)
                np.add(gt, wt, out=gt)
            else:
                gt = mt
        np.multiply(gt, learning_rate, out=wt)
        np.subtract(pt, wt, out=pt)


def compiled(attrs: SgdAttrs, learning_rate: float, step: int) -> CompiledUpdate:
    numbers = learning_rate, attrs.weight_decay
    if not attrs.momentum:
        return "sgd", numbers
    return "momentum", (*numbers, attrs.momentum, attrs.nesterov)


def rows(attrs: SgdAttrs) -> Rows:
    if attrs.weight_decay:
        return Rows.ALL
    return Rows.WITH_STATE if attrs.momentum else Rows.LISTED


MOMENTUM = HyperParameter("momentum", "Momentum coefficient", most=1)

RULE = UpdateRule(
    "sgd",
    SgdAttrs,
    slots,
    run,
    work=1,
    compiled=compiled,
    hyper_parameters=(
        MOMENTUM,
        HyperParameter("nesterov", "Use Nesterov momentum", switch=True),
        WEIGHT_DECAY,
    ),
    words=("stochastic gradient descent", "stocastic gradient descent"),  # as ONE spells it
    onert=1,
    place=0,
    class_name="SGD",
    learning_rate=0.01,
    rows=rows,
)
