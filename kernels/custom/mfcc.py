"""CUSTOM:Mfcc: mel-frequency cepstral coefficients of a power spectrogram.

x (A, T, F)    rate, one integer: samples of sound in a second, static or data    y (A, T, D)

y = log(max(√x M, 1e−12)) Q, with Q[j, d] = √(2/C) cos(π d (j + ½)/C). The C channels of M (F, C)
are triangles on the mel scale, m(f) = 1127 ln(1 + f/700): their centers divide the range between
the frequency limits into C + 1 equal parts, and each triangle falls to 0 at the centers beside its
own. Frequencies outside of the limits do not count, nor does f = 0.

dx = ((dy Qᵀ / (√x M)) Mᵀ) / (2 √x), without channels at the limit 1e−12, and 0 where x is.
All of this is computed in float64.
Source: TensorFlow's Mfcc; mfcc.cc and mfcc_mel_filterbank.cc in TensorFlow Lite.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import DataError, ShapeError
from odt.kernels.families.elementwise import BOOL
from odt.kernels.geometry.flex_map import unpack_map
from odt.kernels.rows.opdef import Array, Kernel, OpDef, Options, Specs, TensorSpec

FLOAT64 = np.dtype(np.float64)
LEAST = 1e-12  # smallest value of a channel before its logarithm
USUAL_RATE = 16_000
FIELDS = (
    "lower_frequency_limit",
    "upper_frequency_limit",
    "filterbank_channel_count",
    "dct_coefficient_count",
)


@dataclass(frozen=True, slots=True)
class MfccAttrs:
    """Frequency limits in hertz, and the numbers of channels and of coefficients."""

    lower: int
    upper: int
    channels: int
    coefficients: int


def attrs(options: Options, statics: Mapping[str, Array]) -> MfccAttrs:
    fields = unpack_map(options, dict.fromkeys(FIELDS, 1))
    values = MfccAttrs(*(int(fields[name][0]) for name in FIELDS))
    if not 0 <= values.lower < values.upper or not 1 <= values.coefficients <= values.channels:
        raise ShapeError(
            "the lower frequency limit must be 0 or more and below the upper one, and there must "
            f"be at least as many channels as coefficients, 1 or more, but got {values}"
        )
    return values


def infer(attrs: MfccAttrs, s: Specs) -> Specs:
    x, rate = s["x"], s["rate"]
    if len(x.shape) != 3 or x.dtype.kind != "f" or x.shape[2] < 2:
        raise ShapeError(f"x must be (A, T, F) of a float type, F at least 2, but got {x}")
    if rate.size != 1 or rate.dtype.kind != "i":
        raise ShapeError(f"rate must be one integer, but got {rate}")
    return {"y": TensorSpec((*x.shape[:2], attrs.coefficients), x.dtype)}


def workspace(attrs: MfccAttrs, s: Specs) -> Specs:
    lead = s["x"].shape[:2]
    return {
        "roots": TensorSpec(s["x"].shape, FLOAT64),
        "channels": TensorSpec((*lead, attrs.channels), FLOAT64),
        "coefficients": TensorSpec((*lead, attrs.coefficients), FLOAT64),
    }


def back_workspace(attrs: MfccAttrs, s: Specs) -> Specs:
    x = s["x"].shape
    return {
        **workspace(attrs, s),
        "changes": TensorSpec((*x[:2], attrs.channels), FLOAT64),
        "counts": TensorSpec((*x[:2], attrs.channels), BOOL),
        "slopes": TensorSpec(x, FLOAT64),
        "positive": TensorSpec(x, BOOL),
    }


def prepare(attrs: MfccAttrs, s: Specs) -> Mapping[str, Any]:
    """Returns the cosines, and a cache of M by sample rate, which `measure` fills."""
    angles = np.outer(np.arange(attrs.channels) + 0.5, np.arange(attrs.coefficients))
    cosines = np.sqrt(2 / attrs.channels) * np.cos(np.pi * angles / attrs.channels)
    banks: dict[int, Array] = {}
    return {"cosines": cosines, "banks": banks}


def mel(frequencies: Any) -> Any:
    """Returns frequencies in hertz, one or an array, on the mel scale."""
    return 1127 * np.log1p(frequencies / 700)


def filter_bank(attrs: MfccAttrs, bins: int, rate: int) -> Array:
    """Returns M (F, C).

    Raises:
        DataError: if the upper frequency limit is not in the spectrogram.
    """
    hertz = rate / 2 / (bins - 1)  # width of a bin
    if rate < 1 or int(attrs.upper / hertz) >= bins:
        raise DataError(
            f"CUSTOM:Mfcc: the sample rate must be twice the upper frequency limit, {attrs.upper}, "
            f"or more, but got {rate}"
        )
    first, last = int(1.5 + attrs.lower / hertz), int(attrs.upper / hertz)
    at = np.arange(first, last + 1)
    low, high = mel(attrs.lower), mel(attrs.upper)
    centers = low + (high - low) / (attrs.channels + 1) * np.arange(attrs.channels + 2)
    above = np.searchsorted(centers[1:-1], mel(at * hertz))  # centers[above] is the one below
    falls = (centers[above + 1] - mel(at * hertz)) / (centers[above + 1] - centers[above])
    padded = np.zeros((bins, attrs.channels + 2))
    padded[at, above] = falls
    padded[at, above + 1] = 1 - falls
    return padded[:, 1:-1].copy()


def measure(
    attrs: MfccAttrs, x: Array, rate: Array, banks: dict[int, Array], roots: Array, channels: Array
) -> Array:
    """Fills `roots` with √x and `channels` with √x M; returns M, which `banks` holds for a rate."""
    key = int(rate.reshape(-1)[0])
    if key not in banks:
        banks.clear()  # rates change rarely: one bank is enough
        banks[key] = filter_bank(attrs, x.shape[2], key)
    np.sqrt(x, out=roots, dtype=FLOAT64)
    np.matmul(roots, banks[key], out=channels)
    return banks[key]


def forward(
    attrs: MfccAttrs,
    *,
    x: Array,
    rate: Array,
    y: Array,
    cosines: Array,
    banks: dict[int, Array],
    roots: Array,
    channels: Array,
    coefficients: Array,
) -> None:
    measure(attrs, x, rate, banks, roots, channels)
    np.maximum(channels, LEAST, out=channels)
    np.log(channels, out=channels)
    np.matmul(channels, cosines, out=coefficients)
    np.copyto(y, coefficients, casting="same_kind")


def grad_x(
    attrs: MfccAttrs,
    *,
    dy: Array,
    x: Array,
    rate: Array,
    dx: Array,
    cosines: Array,
    banks: dict[int, Array],
    roots: Array,
    channels: Array,
    coefficients: Array,
    changes: Array,
    counts: Array,
    slopes: Array,
    positive: Array,
) -> None:
    bank = measure(attrs, x, rate, banks, roots, channels)
    np.copyto(coefficients, dy)
    np.matmul(coefficients, cosines.T, out=changes)
    np.greater(channels, LEAST, out=counts)
    np.maximum(channels, LEAST, out=channels)
    np.divide(changes, channels, out=changes)
    np.multiply(changes, counts, out=changes)
    np.matmul(changes, bank.T, out=slopes)
    np.greater(roots, 0, out=positive)
    dx.fill(0)
    np.multiply(slopes, 0.5, out=slopes)
    np.divide(slopes, roots, out=slopes, where=positive)
    np.copyto(dx, slopes, where=positive, casting="same_kind")


OP = OpDef(
    "CUSTOM:Mfcc",
    inputs=("x", "rate"),
    infer=infer,
    forward=Kernel(
        forward, reads=("x", "rate"), writes=("y",), workspace=workspace, prepare=prepare
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "x", "rate"),
            writes=("dx",),
            workspace=back_workspace,
            prepare=prepare,
        )
    },
    stops=("rate",),
    attrs=attrs,
    usual=(("rate", USUAL_RATE),),
)
