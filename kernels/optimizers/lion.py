"""Lion: updates weights by the sign of an interpolated momentum, its only state.

u = sign(β₁ m + (1 − β₁) g)
p ← p − lr (u + λ p)                 decoupled weight decay λ
m ← β₂ m + (1 − β₂) g

Every weight changes by lr in a step: use a learning rate 3 to 10 times smaller than Adam's.

Source: Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, with its defaults.
"""

from dataclasses import replace

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.optimizers.adam import BETA_1, BETA_2, move_to
from odt.kernels.rows.opdef import TILE, Array
from odt.kernels.rows.updatedef import DECOUPLED_WEIGHT_DECAY, CompiledUpdate, Rows, UpdateRule


@dataclass(frozen=True, slots=True)
class LionAttrs:
    beta_1: float = 0.9
    beta_2: float = 0.99
    weight_decay: float = 0.0


def slots(attrs: LionAttrs) -> tuple[str, ...]:
    return ("m",)


def run(
    attrs: LionAttrs,
    learning_rate: float,
    step: int,
    *,
    p: Array,
    g: Array,
    work: Array,
    m: Array,
) -> None:
    for at in range(0, p.size, TILE):
        tile = slice(at, at + TILE)
        pt, gt, mt = p[tile], g[tile], m[tile]
        wt = work[0, : pt.size]
        np.subtract(mt, gt, out=wt)
        np.multiply(wt, attrs.beta_1, out=wt)
        np.add(wt, gt, out=wt)
        np.sign(wt, out=wt)
        np.multiply(wt, learning_rate, out=wt)
        np.multiply(pt, 1 - learning_rate * attrs.weight_decay, out=pt)
        np.subtract(pt, wt, out=pt)
        move_to(mt, gt, 1 - attrs.beta_2)


def compiled(attrs: LionAttrs, learning_rate: float, step: int) -> CompiledUpdate:
    p_scale = 1 - learning_rate * attrs.weight_decay
    return "lion", (learning_rate, p_scale, attrs.beta_1, 1 - attrs.beta_2)


def rows(attrs: LionAttrs) -> Rows:
    return Rows.ALL if attrs.weight_decay else Rows.WITH_STATE


RULE = UpdateRule(
    "lion",
    LionAttrs,
    slots,
    run,
    work=1,
    compiled=compiled,
    hyper_parameters=(
        replace(BETA_1, note="weight of the momentum in the update"),
        replace(BETA_2, note="decay rate of the momentum"),
        DECOUPLED_WEIGHT_DECAY,
    ),
    place=5,
    learning_rate=1e-4,
    rows=rows,
)
