"""Adam with decoupled weight decay.

p ← p − lr λ p                       weight decay λ
m ← m + (1 − β₁)(g − m)              v ← v + (1 − β₂)(g² − v)
p ← p − lr m̂ / (√v̂ + ε)              m̂ = m / (1 − β₁ᵗ), v̂ = v / (1 − β₂ᵗ), t = 1 at first

Source: torch.optim.AdamW, with its defaults.
"""

from math import sqrt

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.optimizers.adam import MOMENTS, MomentAttrs, move_to, rows_with_moments, slots
from odt.kernels.rows.opdef import TILE, Array
from odt.kernels.rows.term import root
from odt.kernels.rows.updatedef import DECOUPLED_WEIGHT_DECAY, CompiledUpdate, UpdateRule


@dataclass(frozen=True, slots=True)
class AdamWAttrs(MomentAttrs):
    epsilon: float = 1e-8
    weight_decay: float = 0.01


def run(
    attrs: AdamWAttrs,
    learning_rate: float,
    step: int,
    *,
    p: Array,
    g: Array,
    work: Array,
    m: Array,
    v: Array,
) -> None:
    correction = sqrt(1 - attrs.beta_2**step)
    alpha = learning_rate / (1 - attrs.beta_1**step)
    for at in range(0, p.size, TILE):
        tile = slice(at, at + TILE)
        pt, gt, mt, vt = p[tile], g[tile], m[tile], v[tile]
        wt = work[0, : pt.size]
        np.multiply(pt, 1 - learning_rate * attrs.weight_decay, out=pt)
        np.multiply(gt, gt, out=wt)
        move_to(vt, wt, 1 - attrs.beta_2)
        move_to(mt, gt, 1 - attrs.beta_1)
        np.sqrt(vt, out=wt)
        np.divide(wt, correction, out=wt)
        np.add(wt, attrs.epsilon, out=wt)
        np.divide(mt, wt, out=wt)
        np.multiply(wt, alpha, out=wt)
        np.subtract(pt, wt, out=pt)


def compiled(attrs: AdamWAttrs, learning_rate: float, step: int) -> CompiledUpdate:
    alpha = learning_rate / (1 - attrs.beta_1**step)
    rates = 1 - attrs.beta_1, 1 - attrs.beta_2
    scale = 1 / root(1 - attrs.beta_2**step)
    decay = 1 - learning_rate * attrs.weight_decay
    return "adam", (alpha, *rates, attrs.epsilon, scale, 0.0, decay)


RULE = UpdateRule(
    "adamw",
    AdamWAttrs,
    slots,
    run,
    work=1,
    compiled=compiled,
    hyper_parameters=(*MOMENTS, DECOUPLED_WEIGHT_DECAY),
    place=2,
    class_name="AdamW",
    rows=rows_with_moments,
)
