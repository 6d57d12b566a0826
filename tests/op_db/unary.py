"""Operators of one input that work element by element."""

from collections.abc import Callable, Mapping
from math import erf, pi
from typing import Any

import numpy as np

from odt.kernels.opdef import Array, TensorSpec
from op_db import Draw, OpInfo, Options, Reference, Refusal, Sample, away_from_zero, positive

INT32 = np.dtype(np.int32)
FLOAT = (Refusal("float", {"x": TensorSpec((2, 3), INT32)}),)
NUMBER = (Refusal("must be a number", {"x": TensorSpec((2, 3), np.dtype(bool))}),)
LARGE = {"x": (512, 1024)}


def formula(f: Callable[..., Any], *settings: str) -> Reference:
    """f(x, settings by name)."""

    def reference(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"y": f(i["x"], *(o[n] for n in settings))}

    return reference


def row(
    name: str,
    f: Callable[[Array], Array],
    draw: Draw = away_from_zero,
    integers: bool = False,
    more: tuple[Sample, ...] = (),
) -> OpInfo:
    """An operator without options."""
    samples = [Sample("rank 2", {"x": (3, 4)}), Sample("rank 4", {"x": (1, 2, 3, 2)}), *more]
    if integers:
        samples.append(Sample("integers", {"x": np.array([[-3, 0, 4]], np.int32)}))
    refusals = NUMBER if integers else FLOAT
    large = Sample("large", LARGE)
    return OpInfo(name, formula(f), tuple(samples), large, refusals, draw=draw)


def points(*x: float) -> Sample:
    return Sample("both sides", {"x": np.array([x], float)})


def leaky_relu(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * x)


def hard_swish(x: Array) -> Array:
    return np.asarray(x * np.clip(x + 3, 0, 6) / 6)


def gelu(x: Array, approximate: bool) -> Array:
    if approximate:
        return np.asarray(x * (1 + np.tanh((2 / pi) ** 0.5 * (x + 0.044715 * x**3))) / 2)
    phi = np.array([(1 + erf(v / 2**0.5)) / 2 for v in x.flat]).reshape(x.shape)
    return np.asarray(x * phi)


GELU_POINTS = np.array([np.linspace(-7, 7, 60)])
ROWS: tuple[OpInfo, ...] = (
    row("ABS", lambda x: np.where(x < 0, -x, x), integers=True),
    row("EXP", np.exp),
    row("LOG", np.log, positive),
    row("SQRT", lambda x: x**0.5, positive),
    row("RSQRT", lambda x: x**-0.5, positive),
    row("SQUARE", lambda x: x * x, integers=True),
    row("NEG", lambda x: 0 - x, integers=True),
    row("SIN", np.sin),
    row("COS", np.cos),
    row(
        "RELU_0_TO_1",
        lambda x: np.where(x < 0, 0, np.where(x > 1, 1, x)),
        integers=True,
        more=(points(-9, -0.1, 0.1, 0.9, 1.1, 9),),
    ),
    row("LOGISTIC", lambda x: 1 / (1 + np.exp(-x)), more=(points(-60, -9, 9, 60),)),
    row("ELU", lambda x: np.where(x > 0, x, np.exp(x) - 1), more=(points(-60, -9, 9, 60),)),
    row("HARD_SWISH", hard_swish, more=(points(-9, -3.1, -2.9, 2.9, 3.1, 9),)),
    OpInfo(
        "LEAKY_RELU",
        formula(leaky_relu, "alpha"),
        samples=(
            Sample("small", {"x": (3, 4)}, {"alpha": 0.1}),
            Sample("nothing", {"x": (3, 4)}, {"alpha": 0.0}),
            Sample("above 1", {"x": (3, 4)}, {"alpha": 1.5}),
        ),
        large=Sample("large", LARGE, {"alpha": 0.2}),
        refusals=(
            *(Refusal(r.words, r.inputs, {"alpha": 0.1}) for r in FLOAT),
            Refusal("0 or more", {"x": (2, 3)}, {"alpha": -0.1}),
            Refusal("0 or more", {"x": (2, 3)}, {"alpha": float("nan")}),
        ),
    ),
    OpInfo(
        "GELU",
        formula(gelu, "approximate"),
        samples=tuple(
            Sample(f"{label}, {how}", {"x": x}, {"approximate": how == "approximate"})
            for how in ("exact", "approximate")
            for label, x in (("rank 2", (3, 4)), ("all ranges", GELU_POINTS))
        ),
        large=Sample("large", {"x": (4, 8_000, 3)}, {"approximate": False}),
        also_large=(Sample("approximate", {"x": (4, 8_000, 3)}, {"approximate": True}),),
        refusals=tuple(Refusal(r.words, r.inputs, {"approximate": False}) for r in FLOAT),
        loose=4,
    ),
)
