"""CUSTOM:AudioSpectrogram: power or magnitude of the frequencies in windows of sound.

x (L, A) or (N, L, A)    y (A, T, F) or (N, A, T, F)

With the window length W, the stride s and the smallest power of two K ≥ W, T is 1 + ⌊(L − W)/s⌋, F
is K/2 + 1, and y[a, t, f] is |X|² or |X| with X = Σ h[n] x[s t + n, a] e^(−2πi f n/K), n from 0 to
W − 1, and the periodic Hann window h[n] = ½ − ½ cos(2π n/W).

dx sums over windows h[n] Re Σ g[f] X[f] e^(2πi f n/K), where g is 2 dy or dy/|X|; it is 0 where X
is. The transform is computed in float64.
Source: TensorFlow's AudioSpectrogram; audio_spectrogram.cc in TensorFlow Lite.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.geometry.axes import same
from odt.kernels.geometry.flex_map import unpack_map
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Options, Specs, TensorSpec

FLOAT64, COMPLEX128 = np.dtype(np.float64), np.dtype(np.complex128)


@dataclass(frozen=True, slots=True)
class SpectrogramAttrs:
    """Window length and stride, and whether the output is the power instead of the magnitude."""

    window: int
    stride: int
    squared: bool

    @property
    def length(self) -> int:
        """Length of the transform."""
        return 1 << (self.window - 1).bit_length()


def attrs(options: Options, statics: Mapping[str, Array]) -> SpectrogramAttrs:
    fields = unpack_map(options, {"window_size": 1, "stride": 1, "magnitude_squared": 1})
    window, stride, squared = (int(values[0]) for values in fields.values())
    if window < 2 or stride < 1:
        raise ShapeError(
            f"window_size must be at least 2 and stride 1, but got {window} and {stride}"
        )
    return SpectrogramAttrs(window, stride, bool(squared))


def infer(attrs: SpectrogramAttrs, s: Specs) -> Specs:
    x = s["x"]
    if len(x.shape) not in (2, 3) or x.dtype.kind != "f" or x.shape[-2] < attrs.window:
        raise ShapeError(
            f"x must be (L, A) or (N, L, A) of a float type, L at least window_size, "
            f"{attrs.window}, but got {x}"
        )
    *lead, length, channels = x.shape
    windows = 1 + (length - attrs.window) // attrs.stride
    return {"y": TensorSpec((*lead, channels, windows, attrs.length // 2 + 1), x.dtype)}


def mixes_samples(attrs: SpectrogramAttrs, s: Specs, batched: Names) -> bool:
    return len(s["x"].shape) == 2


def workspace(attrs: SpectrogramAttrs, s: Specs) -> Specs:
    y = s["y"].shape
    return {
        "frames": TensorSpec((*y[:-1], attrs.length), FLOAT64),
        "spectrum": TensorSpec(y, COMPLEX128),
    }


def back_workspace(attrs: SpectrogramAttrs, s: Specs) -> Specs:
    *lead, length, channels = s["x"].shape
    return {
        **workspace(attrs, s),
        "factor": TensorSpec(s["y"].shape, FLOAT64),
        "sums": TensorSpec((*lead, channels, length), FLOAT64),
    }


def prepare(attrs: SpectrogramAttrs, s: Specs) -> Mapping[str, Any]:
    hann = np.zeros(attrs.length)
    hann[: attrs.window] = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(attrs.window) / attrs.window)
    return {"hann": hann}


def back_prepare(attrs: SpectrogramAttrs, s: Specs) -> Mapping[str, Any]:
    """Returns the window, and factors for an inverse transform that counts frequencies twice."""
    counts = np.full(s["y"].shape[-1], 2.0 if attrs.squared else 1.0)
    counts[1:-1] /= 2
    return {**prepare(attrs, s), "counts": counts}


def transform(
    attrs: SpectrogramAttrs, x: Array, hann: Array, frames: Array, spectrum: Array
) -> None:
    """Fills `spectrum` with the transforms of all windows."""
    windows = np.lib.stride_tricks.sliding_window_view(x.swapaxes(-1, -2), attrs.window, axis=-1)
    frames[..., attrs.window :] = 0
    np.copyto(frames[..., : attrs.window], windows[..., :: attrs.stride, :])
    np.multiply(frames, hann, out=frames)
    np.fft.rfft(frames, out=spectrum)


def forward(
    attrs: SpectrogramAttrs, *, x: Array, y: Array, hann: Array, frames: Array, spectrum: Array
) -> None:
    transform(attrs, x, hann, frames, spectrum)
    power, imaginary = spectrum.real, spectrum.imag
    np.multiply(power, power, out=power)
    np.multiply(imaginary, imaginary, out=imaginary)
    np.add(power, imaginary, out=power)
    if not attrs.squared:
        np.sqrt(power, out=power)
    np.copyto(y, power, casting="same_kind")


def grad_x(
    attrs: SpectrogramAttrs,
    *,
    dy: Array,
    x: Array,
    dx: Array,
    hann: Array,
    counts: Array,
    frames: Array,
    spectrum: Array,
    factor: Array,
    sums: Array,
) -> None:
    transform(attrs, x, hann, frames, spectrum)
    parts = spectrum.real, spectrum.imag
    if not attrs.squared:
        np.abs(spectrum, out=factor)
        np.maximum(factor, np.finfo(np.float64).tiny, out=factor)
        for part in parts:
            np.divide(part, factor, out=part)
    np.copyto(factor, dy)
    np.multiply(factor, counts, out=factor)
    for part in parts:
        np.multiply(part, factor, out=part)
    np.fft.irfft(spectrum, attrs.length, norm="forward", out=frames)
    np.multiply(frames, hann, out=frames)
    sums.fill(0)
    for k in range(frames.shape[-2]):
        part = sums[..., k * attrs.stride : k * attrs.stride + attrs.window]
        np.add(part, frames[..., k, : attrs.window], out=part)
    np.copyto(dx, sums.swapaxes(-1, -2), casting="same_kind")


def flops(attrs: SpectrogramAttrs, s: Specs) -> int:
    """Counts 5/2 K log₂ K operations for the transform of K real numbers."""
    return int(5 * s["y"].size * np.log2(attrs.length))


OP = OpDef(
    "CUSTOM:AudioSpectrogram",
    inputs=("x",),
    infer=infer,
    forward=Kernel(forward, reads=("x",), writes=("y",), workspace=workspace, prepare=prepare),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "x"),
            writes=("dx",),
            workspace=back_workspace,
            prepare=back_prepare,
        )
    },
    attrs=attrs,
    flops=flops,
    mixes_samples=mixes_samples,
    add_batch_axis=same,
)
