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


def sample_means(terms: Array, scale: Array) -> Mapping[str, Array]:
    """The loss of terms (N, …): the mean of each sample's, times the sample's scale, added up."""
    means = np.array([np.mean(terms[n]) for n in range(len(terms))], terms.dtype)
    return {"loss": np.sum(means * scale, keepdims=True)}


def apart(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Targets at least 0.5 from any output that `away_from_zero` draws."""
    return rng.choice([-1.0, 1.0], shape) * rng.uniform(2.0, 3.0, shape)


def dense(label: str, shape: tuple[int, ...], **options: object) -> Sample:
    return Sample(label, {"x": shape, "t": shape, "scale": SCALE}, options, {}, ("scale",))


def weighted(label: str, shape: tuple[int, ...], **options: object) -> Sample:
    """A loss whose samples have a scale each."""
    scale = np.linspace(0.1, 0.7, shape[0])
    return Sample(label, {"x": shape, "t": shape, "scale": scale}, options)
