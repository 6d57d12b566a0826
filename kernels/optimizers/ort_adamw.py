"""AdamW in ONNX Runtime's form: epsilon as in Keras' Adam, and weight decay after the step.

m ← m + (1 − β₁)(g − m)              v ← v + (1 − β₂)(g² − v)
p ← p − α m / (√v + ε)               α = lr √(1 − β₂ᵗ) / (1 − β₁ᵗ), t = 1 on the first step
p ← p − lr λ p                       weight decay λ, of the parameter after its step

torch.optim.AdamW decays the parameter before its step, and adds ε after the bias correction.

Source: AdamWOptimizer of onnxruntime-training 1.19.2, with the defaults of its onnxblock; it is the
AdamW of Hugging Face Transformers.
"""

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.optimizers.adam import (
    MOMENTS,
    MomentAttrs,
    rows_with_moments,
    slots,
    step_size,
    update_tile,
)
from odt.kernels.rows.opdef import TILE, Array
from odt.kernels.rows.updatedef import DECOUPLED_WEIGHT_DECAY, CompiledUpdate, UpdateRule


@dataclass(frozen=True, slots=True)
class OrtAdamWAttrs(MomentAttrs):
    epsilon: float = 1e-6


def run(
    attrs: OrtAdamWAttrs,
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
        pt = p[tile]
        update_tile(attrs, alpha, pt, g[tile], m[tile], v[tile], work[0, : pt.size])
        if attrs.weight_decay:
            np.multiply(pt, 1 - learning_rate * attrs.weight_decay, out=pt)


def compiled(attrs: OrtAdamWAttrs, learning_rate: float, step: int) -> CompiledUpdate:
    alpha = step_size(attrs, learning_rate, step)
    rates = 1 - attrs.beta_1, 1 - attrs.beta_2
    decay = 1 - learning_rate * attrs.weight_decay
    return "adam", (alpha * decay, *rates, attrs.epsilon, 1.0, 0.0, decay)


RULE = UpdateRule(
    "ort_adamw",
    OrtAdamWAttrs,
    slots,
    run,
    work=1,
    compiled=compiled,
    hyper_parameters=(*MOMENTS, DECOUPLED_WEIGHT_DECAY),
    class_name="OrtAdamW",
    rows=rows_with_moments,
)
