"""Losses: the mean over a sample's elements, summed over samples, times scale."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.opdef import Array
from op_db import Options, Sample

SCALE = np.array([0.3])
LOGITS = {"from_logits": True}
PROBABILITIES = {"from_logits": False}


def cross_entropy(o: Options, x: Array, t: Array, scale: Array) -> Mapping[str, Array]:
    beta = o.get("beta", 1.0)
    if o["from_logits"]:
        e = np.exp(beta * x)
        log_p = np.log(e / e.sum(-1, keepdims=True))
    else:
        log_p = np.log(x)
    rows = -np.sum(t * log_p, axis=-1).reshape(len(x), -1)
    samples = rows.mean(1) if o.get("mean_over_positions", True) else rows.sum(1)
    return {"loss": np.sum(samples) * scale}


def dense(label: str, shape: tuple[int, ...], **options: object) -> Sample:
    return Sample(label, {"x": shape, "t": shape, "scale": SCALE}, options, {}, ("scale",))
