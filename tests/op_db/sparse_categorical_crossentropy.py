"""sparse_categorical_crossentropy: reference and samples."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import INT32, OpInfo, Options, Refusal, Sample, positive
from op_db.support.losses import (
    LOGITS,
    PROBABILITIES,
    SCALE,
    over_positions,
    probabilities,
    smoothed,
)


def sparse(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    x, t = i["x"], i["t"]
    dense = smoothed(o, np.eye(x.shape[-1])[t], x.shape[-1]) * (t >= 0)[..., np.newaxis]
    return over_positions(o, -np.sum(dense * np.log(probabilities(o, x)), axis=-1), i["scale"])


def labels(*shape: int) -> Array:
    return np.random.default_rng(3).integers(0, 4, shape).astype(np.int32)


def ignored(sample: Sample, *places: int) -> Sample:
    """The sample with some labels that are ignored."""
    t = np.array(sample.inputs["t"])
    t.ravel()[list(places)] = -1
    return replace(sample, label=f"{sample.label}, ignored", inputs={**sample.inputs, "t": t})


def by_class(label: str, shape: tuple[int, ...], runs: int = 0, **options: object) -> Sample:
    inputs: dict[str, tuple[int, ...] | Array] = {
        "x": shape,
        "t": labels(*shape[:-1]),
        "scale": np.linspace(0.1, 0.7, runs) if runs else SCALE,
    }
    return Sample(label, inputs, options, {}, () if runs else ("scale",))


INFO = OpInfo(
    "sparse_categorical_crossentropy",
    sparse,
    samples=(
        by_class("logits", (3, 4), **LOGITS),
        by_class("logits, beta", (3, 4), **LOGITS, beta=0.6),
        by_class("logits, positions", (2, 3, 4), **LOGITS),
        by_class("logits, positions summed", (2, 3, 4), **LOGITS, mean_over_positions=False),
        by_class("probabilities", (3, 4), **PROBABILITIES),
        by_class("probabilities, positions", (2, 3, 4), **PROBABILITIES),
        by_class("logits, smoothed", (3, 4), **LOGITS, beta=0.6, label_smoothing=0.2),
        by_class("probabilities, smoothed", (3, 4), **PROBABILITIES, label_smoothing=0.2),
        by_class("logits, weighted", (3, 4), 3, **LOGITS),
        by_class("logits, weighted positions", (2, 3, 4), 6, **LOGITS, beta=0.6),
        by_class("weighted positions, smoothed", (2, 3, 4), 6, **LOGITS, label_smoothing=0.2),
        by_class("probabilities, weighted", (3, 4), 3, **PROBABILITIES, label_smoothing=0.2),
        ignored(by_class("logits", (3, 4), **LOGITS, beta=0.6), 1),
        ignored(by_class("all logits", (3, 4), **LOGITS), 0, 1, 2),
        ignored(by_class("probabilities", (3, 4), **PROBABILITIES), 0, 2),
        ignored(by_class("smoothed", (2, 3, 4), **LOGITS, label_smoothing=0.2), 0, 4),
        ignored(by_class("weighted positions", (2, 3, 4), 6, **LOGITS), 2, 3),
        ignored(by_class("weighted", (3, 4), 3, **PROBABILITIES, label_smoothing=0.2), 2),
    ),
    large=by_class("large", (512, 1024), **LOGITS),
    also_large=(by_class("large, weighted", (512, 1024), 512, **LOGITS, label_smoothing=0.1),),
    refusals=(
        Refusal("int32", {"x": (3, 4), "t": (3,), "scale": (1,)}, LOGITS),
        Refusal(
            "t (N, …)",
            {"x": (3, 4), "t": TensorSpec((3, 4), INT32), "scale": (1,)},
            LOGITS,
        ),
    ),
    draw=positive,
    loose=10,
)
