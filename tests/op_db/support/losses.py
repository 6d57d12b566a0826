"""Losses: the mean over a sample's elements, summed over samples, times scale."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import Options, Sample

SCALE = np.array([0.3])
LOGITS = {"from_logits": True}
PROBABILITIES = {"from_logits": False}


def probabilities(o: Options, x: Array) -> Array:
    """softmax(beta x) of logits, or x itself."""
    if not o["from_logits"]:
        return x
    e = np.exp(o.get("beta", 1.0) * x)
    return np.asarray(e / e.sum(-1, keepdims=True))


def unit_probabilities(o: Options, x: Array) -> Array:
    """1 / (1 + e⁻ˣ) of logits, or x within Keras' epsilon of 0 and 1."""
    return np.asarray(1 / (1 + np.exp(-x)) if o["from_logits"] else np.clip(x, 1e-7, 1 - 1e-7))


def smoothed(o: Options, t: Array, classes: int) -> Array:
    part = o.get("label_smoothing", 0.0)
    return np.asarray(t * (1 - part) + part / classes)


def over_positions(o: Options, rows: Array, scale: Array) -> Mapping[str, Array]:
    """The loss of rows (N, …), one a position: a sample's mean or sum; each run of rows scaled."""
    each = (rows.reshape(len(scale), -1) * scale[:, np.newaxis]).reshape(len(rows), -1)
    samples = each.mean(1) if o.get("mean_over_positions", True) else each.sum(1)
    return {"loss": np.sum(samples, keepdims=True)}


def cross_entropy(o: Options, x: Array, t: Array, scale: Array) -> Mapping[str, Array]:
    t = smoothed(o, t, x.shape[-1])
    return over_positions(o, -np.sum(t * np.log(probabilities(o, x)), axis=-1), scale)


def sample_means(terms: Array, scale: Array) -> Mapping[str, Array]:
    """The loss of terms (N, …), each run of them scaled: the means of the samples, added up."""
    scaled = (terms.reshape(len(scale), -1) * scale[:, np.newaxis]).reshape(terms.shape)
    means = np.array([np.mean(scaled[n]) for n in range(len(terms))], terms.dtype)
    return {"loss": np.sum(means, keepdims=True)}


def apart(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Targets at least 0.5 from any output that `away_from_zero` draws."""
    return rng.choice([-1.0, 1.0], shape) * rng.uniform(2.0, 3.0, shape)


def dense(label: str, shape: tuple[int, ...], **options: object) -> Sample:
    return Sample(label, {"x": shape, "t": shape, "scale": SCALE}, options, {}, ("scale",))


def weighted(label: str, shape: tuple[int, ...], runs: int = 0, **options: object) -> Sample:
    """A loss whose samples have a scale each, or so many runs of their positions."""
    scale = np.linspace(0.1, 0.7, runs or shape[0])
    return Sample(label, {"x": shape, "t": shape, "scale": scale}, options)
