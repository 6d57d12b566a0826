"""RFFT2D: reference and samples."""

from collections.abc import Mapping

import numpy as np

from odt.kernels.rows.opdef import Array
from op_db import OpInfo, Options, Refusal, Sample
from op_db.support.complex_numbers import spectrum
from op_db.support.indices import ints


def rotations(length: int, frequencies: int, dtype: np.dtype) -> Array:
    """e^(−2πi hk/length) for h and k."""
    turns = np.outer(np.arange(length), np.arange(frequencies)).astype(dtype) / length
    pi = 4 * np.arctan(np.ones((), dtype))
    return np.cos(2 * pi * turns) - 1j * np.sin(2 * pi * turns)


def rfft2d(o: Options, i: Mapping[str, Array]) -> Mapping[str, Array]:
    """The sum over x, as a product with a matrix for each axis."""
    x, (k, n) = i["x"], o["fft_length"]
    filled = np.zeros((*x.shape[:-2], k, n), x.dtype)
    filled[..., : x.shape[-2], : x.shape[-1]] = x[..., :k, :n]
    columns, rows = rotations(k, k, x.dtype), rotations(n, n // 2 + 1, x.dtype)
    return {"y": columns.T @ (filled @ rows)}


def sample(label: str, x: tuple[int, ...], k: int, n: int, mixes: bool = False) -> Sample:
    return Sample(label, {"x": x}, {}, ints(fft_length=[k, n]), mixes=mixes)


INFO = OpInfo(
    "RFFT2D",
    rfft2d,
    samples=(
        sample("rows", (2, 1, 8), 1, 8),
        sample("frames", (2, 3, 1, 4), 1, 4),
        sample("both axes", (2, 4, 8), 4, 8),
        sample("odd", (2, 3, 5), 3, 5),
        sample("filled", (2, 1, 5), 1, 8),
        sample("cut", (2, 1, 9), 1, 4),
        sample("rows cut, columns filled", (2, 5, 3), 2, 4),
        sample("filled in both", (2, 3, 3), 4, 4),
        sample("one row of several", (2, 3, 4), 1, 4),
        sample("a single frequency", (2, 2, 3), 2, 1),
        sample("a matrix", (4, 4), 4, 4, mixes=True),
    ),
    large=sample("large", (64, 8, 1, 512), 1, 512),
    also_large=(
        sample("large, both", (4, 256, 256), 256, 256),
        sample("cut", (8, 200, 300), 128, 256),
    ),
    refusals=(
        Refusal("real (…, H, W)", {"x": (4,)}, {}, ints(fft_length=[1, 4])),
        Refusal("real (…, H, W)", {"x": spectrum(2, 4)}, {}, ints(fft_length=[1, 4])),
        Refusal("two lengths", {"x": (2, 4)}, {}, ints(fft_length=[4])),
        Refusal("two lengths", {"x": (2, 4)}, {}, ints(fft_length=[0, 4])),
    ),
)
