"""CUSTOM:Mfcc: reference and samples."""

from collections.abc import Mapping
from math import cos, log1p, pi, sqrt

import numpy as np

from odt.kernels.rows.opdef import Array, TensorSpec
from op_db import INT32, OpInfo, Options, Refusal, Sample, positive
from op_db.support.flex_maps import flex_map


def triangle(f: float, below: float, center: float, above: float) -> float:
    """Rises from below to the center, and falls to above."""
    if below < f <= center:
        return (f - below) / (center - below)
    return (above - f) / (above - center) if center < f < above else 0.0


def mfcc(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """Channel by channel, and coefficient by coefficient."""
    x, rate = i["x"], int(i["rate"].reshape(-1)[0])
    lower, upper, channels, count = o["numbers"]
    ends = [1127 * log1p(f / 700) for f in (lower, upper)]
    centers = [ends[0] + (ends[1] - ends[0]) * k / (channels + 1) for k in range(channels + 2)]
    hertz = rate / 2 / (x.shape[2] - 1)
    weights = [
        [
            (f, triangle(1127 * log1p(f * hertz / 700), *centers[c : c + 3]))
            for f in range(int(1.5 + lower / hertz), int(upper / hertz) + 1)
        ]
        for c in range(channels)
    ]
    y = np.zeros((*x.shape[:2], count), x.dtype)
    for a, t in np.ndindex(x.shape[:2]):
        logs = []
        for c in range(channels):
            energy = sum((weight * np.sqrt(x[a, t, f]) for f, weight in weights[c] if weight), 0.0)
            logs.append(np.log(max(energy, 1e-12)))
        for d in range(count):
            cosines = [cos(pi * d * (c + 0.5) / channels) for c in range(channels)]
            y[a, t, d] = sqrt(2 / channels) * sum(p * q for p, q in zip(logs, cosines, strict=True))
    return {"y": y}


def of(lower: float, upper: float, channels: int, count: int) -> Options:
    made = flex_map(
        lower_frequency_limit=lower,
        upper_frequency_limit=upper,
        filterbank_channel_count=channels,
        dct_coefficient_count=count,
    )
    return {**made, "numbers": (int(lower), int(upper), channels, count)}


def sample(label: str, shape: tuple[int, ...], o: Options, rate: int = 8000) -> Sample:
    given = np.array([rate], np.int32)
    return Sample(label, {"x": shape, "rate": given}, o, constants=("rate",))


ONE: Mapping[str, tuple[int, ...] | TensorSpec] = {"x": (1, 2, 9), "rate": TensorSpec((1,), INT32)}
INFO = OpInfo(
    "CUSTOM:Mfcc",
    mfcc,
    samples=(
        sample("all coefficients", (2, 3, 17), of(20.0, 4000.0, 4, 4)),
        sample("some", (1, 2, 33), of(300.0, 3000.0, 6, 3)),
        sample("another rate", (2, 1, 17), of(20.0, 4000.0, 3, 2), 11025),
        sample("a channel without frequencies", (1, 2, 9), of(0.0, 980.0, 5, 5)),
    ),
    large=sample("large", (4, 260, 257), of(20.0, 4000.0, 40, 13), 16000),
    refusals=(
        Refusal("x must be", {**ONE, "x": (2, 9)}, of(20.0, 4000.0, 4, 4)),
        Refusal("one integer", {**ONE, "rate": TensorSpec((2,), INT32)}, of(20.0, 4000.0, 4, 4)),
        Refusal("below the upper", ONE, of(500.0, 400.0, 4, 4)),
        Refusal("as many channels", ONE, of(20.0, 4000.0, 4, 5)),
        Refusal("no lower_frequency_limit", ONE, {"custom_options": b"12345"}),
    ),
    draw=positive,
)
