"""CUSTOM:AudioSpectrogram: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.flex_maps import flex_map


def spectrogram(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """The sum over each window, frequency by frequency."""
    x, window, stride = i["x"], o["window"], o["stride"]
    if x.ndim == 3:
        return {"y": np.stack([spectrogram(o, {"x": each})["y"] for each in x])}
    length = 2 ** int(np.ceil(np.log2(window)))
    n = np.arange(window)
    weights = (1 - np.cos(2 * np.pi * n / window)) / 2
    windows = 1 + (len(x) - window) // stride
    y = np.zeros((x.shape[1], windows, length // 2 + 1), x.dtype)
    for f in range(y.shape[2]):
        angles = 2 * np.pi * f * n / length
        real, imaginary = weights * np.cos(angles), weights * np.sin(angles)
        for a, t in np.ndindex(y.shape[:2]):
            frame = x[t * stride : t * stride + window, a]
            y[a, t, f] = np.sum(frame * real) ** 2 + np.sum(frame * imaginary) ** 2
    return {"y": y if o["squared"] else np.sqrt(y)}


def of(window: int, stride: int, squared: bool = True) -> Options:
    made = flex_map(window_size=window, stride=stride, magnitude_squared=squared)
    return {**made, "window": window, "stride": stride, "squared": squared}


INFO = OpInfo(
    "CUSTOM:AudioSpectrogram",
    spectrogram,
    samples=(
        Sample("power", {"x": (2, 11, 1)}, of(5, 3)),
        Sample("magnitude", {"x": (2, 9, 2)}, of(4, 2, False)),
        Sample("windows apart", {"x": (1, 10, 1)}, of(2, 4)),
        Sample("one window", {"x": (2, 6, 1)}, of(6, 1, False)),
        Sample("one sound", {"x": (11, 2)}, of(5, 3), mixes=True, rebatches=False),
    ),
    large=Sample("large", {"x": (8, 4096, 2)}, of(300, 160)),
    refusals=(
        Refusal("(L, A)", {"x": (8,)}, of(4, 2)),
        Refusal("at least window_size, 4", {"x": (3, 1)}, of(4, 2)),
        Refusal("at least 2", {"x": (8, 1)}, of(1, 2)),
        Refusal("stride 1", {"x": (8, 1)}, of(4, 0)),
        Refusal("no window_size", {"x": (8, 1)}, {"custom_options": b"12345"}),
    ),
)
