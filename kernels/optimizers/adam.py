"""Adam in Keras' form: epsilon is added to the root of the moment before bias correction.

g ← g + λ p                          weight decay λ, as in torch.optim.Adam
m ← m + (1 − β₁)(g − m)              v ← v + (1 − β₂)(g² − v)
p ← p − α m / (√v + ε)               α = lr √(1 − β₂ᵗ) / (1 − β₁ᵗ), t = 1 on the first step

If it is lazy, rows of embedding tables that a batch does not read keep p, m and v.

ε is added outside the root and without bias correction: the first steps differ from PyTorch's Adam
with the same ε. Source: onert's Adam, with its defaults.
"""

from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.kernels.rows.opdef import TILE, Array
from odt.kernels.rows.term import root
from odt.kernels.rows.updatedef import (
    WEIGHT_DECAY,
    CompiledUpdate,
    HyperParameter,
    Rows,
    UpdateRule,
)


@dataclass(frozen=True, slots=True)
class MomentAttrs:
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7
    weight_decay: float = 0.0


@dataclass(frozen=True, slots=True)
class AdamAttrs(MomentAttrs):
    lazy: bool = False

    def __post_init__(self) -> None:
        if self.lazy and self.weight_decay:
            remedy = "Leave one of the two out."
            raise OptionError("lazy", "needs a weight decay of 0", self.weight_decay, remedy)


def slots(attrs: MomentAttrs) -> tuple[str, ...]:
    return ("m", "v")


def move_to(a: Array, target: Array, rate: float) -> None:
    """Computes a ← a + rate · (target − a) in place; overwrites target."""
    np.subtract(target, a, out=target)
    np.multiply(target, rate, out=target)
    np.add(a, target, out=a)


def step_size(attrs: MomentAttrs, learning_rate: float, step: int) -> float:
    """Returns α, the learning rate with the corrections of both moments; a Term for Terms."""
    return learning_rate * root(1 - attrs.beta_2**step) / (1 - attrs.beta_1**step)


def run(
    attrs: AdamAttrs,
    learning_rate: float,
    step: int,
    *,
    p: Array,
    g: Array,
    work: Array,
    m: Array,
    v: Array,
) -> None:
    alpha = step_size(attrs, learning_rate, step)
    for at in range(0, p.size, TILE):
        tile = slice(at, at + TILE)
        pt, gt, mt, vt = p[tile], g[tile], m[tile], v[tile]
        wt = work[0, : pt.size]
        if attrs.weight_decay:
            np.multiply(pt, attrs.weight_decay, out=wt)
            np.add(gt, wt, out=gt)
        update_tile(attrs, alpha, pt, gt, mt, vt, wt)


def update_tile(
    attrs: MomentAttrs, alpha: float, p: Array, g: Array, m: Array, v: Array, work: Array
) -> None:
    """Updates a tile of a parameter and its moments; destroys the gradient."""
    np.multiply(g, g, out=work)
    move_to(v, work, 1 - attrs.beta_2)
    move_to(m, g, 1 - attrs.beta_1)
    np.sqrt(v, out=work)
    np.add(work, attrs.epsilon, out=work)
    np.divide(m, work, out=work)
    np.multiply(work, alpha, out=work)
    np.subtract(p, work, out=p)


def compiled(attrs: AdamAttrs, learning_rate: float, step: int) -> CompiledUpdate:
    alpha = step_size(attrs, learning_rate, step)
    rates = 1 - attrs.beta_1, 1 - attrs.beta_2
    return "adam", (alpha, *rates, attrs.epsilon, 1.0, attrs.weight_decay, 1.0)


def rows_with_moments(attrs: Any) -> Rows:
    """Returns the rows that an update changes: 0 / (√0 + ε) is 0 unless ε is 0."""
    return Rows.WITH_STATE if attrs.epsilon and not attrs.weight_decay else Rows.ALL


def rows(attrs: AdamAttrs) -> Rows:
    return Rows.LISTED if attrs.lazy else rows_with_moments(attrs)


BETA_1 = HyperParameter("beta_1", "Decay rate of the first moment", most=1, below=True)
BETA_2 = HyperParameter("beta_2", "Decay rate of the second moment", most=1, below=True)
EPSILON = HyperParameter("epsilon", "Constant added to the denominator")
MOMENTS = (BETA_1, BETA_2, EPSILON)

RULE = UpdateRule(
    "adam",
    AdamAttrs,
    slots,
    run,
    work=1,
    compiled=compiled,
    hyper_parameters=(
        *MOMENTS,
        WEIGHT_DECAY,
        HyperParameter(
            "lazy",
            "Update only the rows of embedding tables that a batch reads",
            switch=True,
            omitted=True,
        ),
    ),
    onert=2,
    place=1,
    rows=rows,
)
