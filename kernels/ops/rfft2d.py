"""RFFT2D: discrete Fourier transform of the last two axes of a real x, for frequencies 0 … L/2.

x (…, H, W)    fft_length (K, L), static    y (…, K, L/2 + 1), complex

y[k, l] = Σ x[h, w] e^(−2πi (hk/K + wl/L)), where x is cut or filled with zeros to (K, L).

dx[h, w] is the real part of Σ dy[k, l] e^(2πi (hk/K + wl/L)). Source: tf.signal.rfft2d.

NumPy computes transforms in float32 if it scales them (by 1/K and 1/L), and others in float64. Its
inverse transform to real numbers counts all frequencies twice except 0 and L/2.
"""

from collections.abc import Mapping

import numpy as np

from odt.errors import ShapeError
from odt.kernels.families.complex_parts import complex_type
from odt.kernels.geometry.axes import same
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Options, Specs, TensorSpec

Lengths = tuple[int, ...]


def attrs(options: Options, statics: Mapping[str, Array]) -> Lengths:
    return tuple(int(n) for n in np.ravel(statics["fft_length"]))


def infer(lengths: Lengths, s: Specs) -> Specs:
    x = s["x"]
    valid = len(lengths) == 2 and min(lengths) > 0 and len(x.shape) >= 2 and x.dtype.kind == "f"
    if not valid or not all(x.shape[-2:]):
        raise ShapeError(
            f"x must be real (…, H, W), and fft_length hold two lengths, but got x {x}, {lengths}"
        )
    shape = (*x.shape[:-2], lengths[0], lengths[1] // 2 + 1)
    return {"y": TensorSpec(shape, complex_type(x.dtype))}


def mixes_samples(lengths: Lengths, s: Specs, batched: Names) -> bool:
    return len(s["x"].shape) == 2


def workspace(lengths: Lengths, s: Specs) -> Specs:
    """Returns the workspace for the transform of the rows, empty if they are transformed into y."""
    x, y = s["x"].shape, s["y"]
    rows = 0 if lengths[0] == 1 else min(x[-2], lengths[0])
    return {"rows": TensorSpec((*x[:-2], rows, y.shape[-1]), y.dtype)}


def forward(lengths: Lengths, *, x: Array, y: Array, rows: Array) -> None:
    k, n = lengths
    np.fft.rfft(x[..., :k, :], n, norm="forward", out=y if k == 1 else rows)
    if k > 1:
        np.fft.fft(rows, k, axis=-2, norm="forward", out=y)
    np.multiply(y, y.dtype.type(k * n), out=y)


def back_workspace(lengths: Lengths, s: Specs) -> Specs:
    """Returns the workspace: the transform of dy, and dx as cut or filled if the shapes differ."""
    x, y = s["x"], s["y"]
    filled = lengths if x.shape[-2:] != lengths else (0, 0)
    return {"rows": y, "filled": TensorSpec((*x.shape[:-2], *filled), x.dtype)}


def grad_x(lengths: Lengths, *, dy: Array, dx: Array, rows: Array, filled: Array) -> None:
    k, n = lengths
    columns = dy if k == 1 else np.fft.ifft(dy, axis=-2, out=rows)
    np.multiply(columns, rows.dtype.type(k * n / 2), out=rows)
    counted_once = rows[..., :1] if n % 2 else rows[..., :: n // 2]
    np.add(counted_once, counted_once, out=counted_once)
    if dx.shape[-2:] == lengths:
        np.fft.irfft(rows, n, out=dx)
        return
    np.fft.irfft(rows, n, out=filled)
    dx.fill(0)
    np.copyto(dx[..., :k, :n], filled[..., : dx.shape[-2], : dx.shape[-1]])


def flops(lengths: Lengths, s: Specs) -> int:
    """Counts 5/2 n log₂ n operations for the transform of n real numbers."""
    return int(5 * s["y"].size * np.log2(np.prod(lengths)))


OP = OpDef(
    "RFFT2D",
    inputs=("x", "fft_length"),
    infer=infer,
    forward=Kernel(forward, reads=("x",), writes=("y",), workspace=workspace),
    grads={"x": Kernel(grad_x, reads=("dy",), writes=("dx",), workspace=back_workspace)},
    static=("fft_length",),
    attrs=attrs,
    flops=flops,
    takes_complex=True,
    mixes_samples=mixes_samples,
    add_batch_axis=same,
)
