"""Scales of pixels and other bytes, which are read as floats."""

from odt.kernels.rows.opdef import Array

SCALES = ("0..1", "-1..1")  # ranges to which 0 … 255 is scaled


def rescale(x: Array, scale: str) -> None:
    """Applies a scale in place: 0..1 is x / 255, −1..1 is x / 127.5 − 1, in the dtype of x."""
    x /= x.dtype.type(255 if scale == "0..1" else 127.5)
    if scale == "-1..1":
        x -= x.dtype.type(1)
