"""RMSprop: divides the gradient by the root of its mean square; optionally with momentum.

g ← g + λ p                          weight decay λ
v ← ρ v + (1 − ρ) g²
b ← μ b + g / (√v + ε)               momentum μ
p ← p − lr b                         without momentum p − lr g / (√v + ε)

Source: torch.optim.RMSprop, not centered; ρ, its alpha, and ε have Keras' defaults. Hinton, lecture
6e of Neural Networks for Machine Learning, 2012.
"""

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.optimizers.adam import EPSILON, move_to, rows_with_moments
from odt.kernels.optimizers.sgd import MOMENTUM
from odt.kernels.rows.opdef import TILE, Array
from odt.kernels.rows.updatedef import WEIGHT_DECAY, CompiledUpdate, HyperParameter, UpdateRule


@dataclass(frozen=True, slots=True)
class RmsPropAttrs:
    rho: float = 0.9
    momentum: float = 0.0
    epsilon: float = 1e-7
    weight_decay: float = 0.0


def slots(attrs: RmsPropAttrs) -> tuple[str, ...]:
    return ("v", "momentum") if attrs.momentum else ("v",)


def run(
    attrs: RmsPropAttrs,
    learning_rate: float,
    step: int,
    *,
    p: Array,
    g: Array,
    work: Array,
    v: Array,
    momentum: Array | None = None,
) -> None:
    for at in range(0, p.size, TILE):
        tile = slice(at, at + TILE)
        pt, gt, vt = p[tile], g[tile], v[tile]
        wt = work[0, : pt.size]
        if attrs.weight_decay:
            np.multiply(pt, attrs.weight_decay, out=wt)
            np.add(gt, wt, out=gt)
        np.multiply(gt, gt, out=wt)
        move_to(vt, wt, 1 - attrs.rho)
        np.sqrt(vt, out=wt)
        np.add(wt, attrs.epsilon, out=wt)
        np.divide(gt, wt, out=gt)
        if momentum is not None:
            mt = momentum[tile]
            np.multiply(mt, attrs.momentum, out=mt)
            np.add(mt, gt, out=mt)
            gt = mt
        np.multiply(gt, learning_rate, out=wt)
        np.subtract(pt, wt, out=pt)


def compiled(attrs: RmsPropAttrs, learning_rate: float, step: int) -> CompiledUpdate:
    numbers = learning_rate, attrs.weight_decay, attrs.rho, 1 - attrs.rho, attrs.epsilon
    if not attrs.momentum:
        return "root_scaled", numbers
    return "root_scaled_momentum", (*numbers, attrs.momentum)


RULE = UpdateRule(
    "rmsprop",
    RmsPropAttrs,
    slots,
    run,
    work=1,
    compiled=compiled,
    hyper_parameters=(
        HyperParameter("rho", "Decay rate of the squared gradients", most=1, below=True),
        MOMENTUM,
        EPSILON,
        WEIGHT_DECAY,
    ),
    place=3,
    class_name="RMSprop",
    rows=rows_with_moments,
)
