"""Adagrad: divides the gradient by the root of the sum of all squared gradients so far.

g ← g + λ p                          weight decay λ
v ← v + g²
p ← p − lr g / (√v + ε)

Source: torch.optim.Adagrad, with its defaults. Duchi, Hazan and Singer 2011.
"""

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.optimizers.adam import EPSILON
from odt.kernels.rows.opdef import TILE, Array
from odt.kernels.rows.updatedef import WEIGHT_DECAY, CompiledUpdate, Rows, UpdateRule


@dataclass(frozen=True, slots=True)
class AdagradAttrs:
    epsilon: float = 1e-10
    weight_decay: float = 0.0


def slots(attrs: AdagradAttrs) -> tuple[str, ...]:
    return ("v",)


def run(
    attrs: AdagradAttrs,
    learning_rate: float,
    step: int,
    *,
    p: Array,
    g: Array,
    work: Array,
    v: Array,
) -> None:
    for at in range(0, p.size, TILE):
        tile = slice(at, at + TILE)
        pt, gt, vt = p[tile], g[tile], v[tile]
        wt = work[0, : pt.size]
        if attrs.weight_decay:
            np.multiply(pt, attrs.weight_decay, out=wt)
            np.add(gt, wt, out=gt)
        np.multiply(gt, gt, out=wt)
        np.add(vt, wt, out=vt)
        np.sqrt(vt, out=wt)
        np.add(wt, attrs.epsilon, out=wt)
        np.divide(gt, wt, out=wt)
        np.multiply(wt, learning_rate, out=wt)
        np.subtract(pt, wt, out=pt)


def compiled(attrs: AdagradAttrs, learning_rate: float, step: int) -> CompiledUpdate:
    return "root_scaled", (learning_rate, attrs.weight_decay, 1.0, 1.0, attrs.epsilon)


def rows(attrs: AdagradAttrs) -> Rows:
    return Rows.LISTED if attrs.epsilon and not attrs.weight_decay else Rows.ALL


RULE = UpdateRule(
    "adagrad",
    AdagradAttrs,
    slots,
    run,
    work=1,
    compiled=compiled,
    hyper_parameters=(EPSILON, WEIGHT_DECAY),
    place=4,
    learning_rate=0.01,
    rows=rows,
)
