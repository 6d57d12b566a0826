"""Losses: the mean over a sample's elements or distributions, summed over samples, times scale."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.opdef import Array, TensorSpec
from op_db import OpInfo, Options, Refusal, Sample, between, positive

INT32 = np.dtype(np.int32)
SCALE = np.array([0.3])
LOGITS = {"from_logits": True}
PROBABILITIES = {"from_logits": False}


def mean_squared_error(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    squares = (i["x"] - i["t"]) ** 2
    samples = [np.mean(squares[n]) for n in range(len(squares))]
    return {"loss": np.sum(samples) * i["scale"]}


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


def categorical(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return cross_entropy(o, i["x"], i["t"], i["scale"])


def sparse(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    return cross_entropy(o, i["x"], np.eye(i["x"].shape[-1])[i["t"]], i["scale"])


def binary_cross_entropy(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    p = 1 / (1 + np.exp(-i["x"])) if o["from_logits"] else np.clip(i["x"], 1e-7, 1 - 1e-7)
    units = -(i["t"] * np.log(p) + (1 - i["t"]) * np.log(1 - p))
    rows = units.mean(-1).reshape(len(p), -1) if p.ndim > 1 else units.reshape(-1, 1)
    samples = rows.mean(1) if o.get("mean_over_positions", True) else rows.sum(1)
    return {"loss": np.sum(samples) * i["scale"]}


def labels(*shape: int) -> Array:
    return np.random.default_rng(3).integers(0, 4, shape).astype(np.int32)


def dense(label: str, shape: tuple[int, ...], **options: object) -> Sample:
    return Sample(label, {"x": shape, "t": shape, "scale": SCALE}, options, {}, ("scale",))


def by_class(label: str, shape: tuple[int, ...], **options: object) -> Sample:
    inputs: dict[str, tuple[int, ...] | Array] = {
        "x": shape,
        "t": labels(*shape[:-1]),
        "scale": SCALE,
    }
    return Sample(label, inputs, options, {}, ("scale",))


ROWS: tuple[OpInfo, ...] = (
    OpInfo(
        "mean_squared_error",
        mean_squared_error,
        samples=(dense("rank 2", (3, 4)), dense("rank 4", (2, 2, 3, 1)), dense("rank 1", (4,))),
        large=dense("large", (512, 512)),
        refusals=(
            Refusal("t must be like x", {"x": (3, 4), "t": (3, 5), "scale": (1,)}),
            Refusal("t must be like x", {"x": (), "t": (), "scale": (1,)}),
        ),
        loose=10,
    ),
    OpInfo(
        "binary_crossentropy",
        binary_cross_entropy,
        samples=(
            dense("logits", (3, 4), **LOGITS),
            dense("logits, one value a sample", (4,), **LOGITS),
            dense("logits, positions", (2, 3, 4), **LOGITS),
            dense("logits, positions summed", (2, 3, 4), **LOGITS, mean_over_positions=False),
            dense("probabilities", (3, 4), **PROBABILITIES),
            dense("probabilities, positions", (2, 3, 1, 4), **PROBABILITIES),
        ),
        large=dense("large", (512, 512), **LOGITS),
        also_large=(dense("large, probabilities", (512, 512), **PROBABILITIES),),
        refusals=(
            Refusal("t must be like x", {"x": (3, 4), "t": (3,), "scale": (1,)}, LOGITS),
            Refusal("(N, …, K)", {"x": (), "t": (), "scale": (1,)}, LOGITS),
        ),
        draw=between(0.1, 0.9),
        loose=10,
    ),
    OpInfo(
        "categorical_crossentropy",
        categorical,
        samples=(
            dense("logits", (3, 4), **LOGITS),
            dense("logits, beta", (3, 4), **LOGITS, beta=0.6),
            dense("logits, positions", (2, 3, 4), **LOGITS),
            dense("logits, positions summed", (2, 3, 4), **LOGITS, mean_over_positions=False),
            dense("probabilities", (3, 4), **PROBABILITIES),
            dense("probabilities, positions", (2, 3, 4), **PROBABILITIES),
        ),
        large=dense("large", (512, 512), **LOGITS),
        refusals=(
            Refusal("t must be like x", {"x": (3, 4), "t": (3,), "scale": (1,)}, LOGITS),
            Refusal("(N, …, K)", {"x": (4,), "t": (4,), "scale": (1,)}, LOGITS),
        ),
        draw=positive,
        loose=10,
    ),
    OpInfo(
        "sparse_categorical_crossentropy",
        sparse,
        samples=(
            by_class("logits", (3, 4), **LOGITS),
            by_class("logits, beta", (3, 4), **LOGITS, beta=0.6),
            by_class("logits, positions", (2, 3, 4), **LOGITS),
            by_class("logits, positions summed", (2, 3, 4), **LOGITS, mean_over_positions=False),
            by_class("probabilities", (3, 4), **PROBABILITIES),
            by_class("probabilities, positions", (2, 3, 4), **PROBABILITIES),
        ),
        large=by_class("large", (512, 1024), **LOGITS),
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
    ),
)
