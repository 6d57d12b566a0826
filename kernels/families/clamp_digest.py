"""Digests of clamps for backward: one bit per element."""

import numpy as np

from odt.kernels.native import bitmask
from odt.kernels.rows.opdef import TILE, Array, Attrs, Digest, Kernel, Specs, TensorSpec

BOOL, BYTE = np.dtype(bool), np.dtype(np.uint8)


def unpack_bits(bits: Array, dy: Array, dx: Array) -> None:
    """Computes dx = dy where the bit of an element is set, else 0; a byte holds eight elements.

    It unpacks a tile at a time, because NumPy allocates memory for the bytes.
    """
    dy_flat, dx_flat = dy.reshape(-1, copy=False), dx.reshape(-1, copy=False)
    for at in range(0, dy_flat.size, TILE):
        part = dy_flat[at : at + TILE]
        passed = np.unpackbits(bits[at // 8 : (at + TILE) // 8], count=part.size)
        np.multiply(part, passed.view(BOOL), out=dx_flat[at : at + TILE])


def clamp_bits(lo: float, hi: float) -> Digest:
    """Makes the digest of a clamp: one bit per element, lo < y < hi; dx = dy if set, else 0."""

    def make(attrs: None, *, y: Array, digest: Array, mask: Array, other: Array) -> None:
        flat = y.reshape(-1, copy=False)
        for at in range(0, flat.size, TILE):
            part = flat[at : at + TILE]
            inside, below = mask[: part.size], other[: part.size]
            np.greater(part, lo, out=inside)
            np.less(part, hi, out=below)
            np.logical_and(inside, below, out=inside)
            bits = np.packbits(inside)
            digest[at // 8 : at // 8 + bits.size] = bits

    def back(attrs: None, *, dy: Array, digest: Array, dx: Array) -> None:
        unpack_bits(digest, dy, dx)

    def bits_of(attrs: Attrs, s: Specs) -> TensorSpec:
        return TensorSpec((-(-s["y"].size // 8),), BYTE)

    def masks(attrs: Attrs, s: Specs) -> Specs:
        mask = TensorSpec((min(TILE, s["y"].size),), BOOL)
        return {"mask": mask, "other": mask}

    return Digest(
        make=Kernel(
            make, reads=("y",), writes=("digest",), workspace=masks, compiled=bitmask.pack(lo, hi)
        ),
        gradient=Kernel(
            back,
            reads=("dy", "digest"),
            writes=("dx",),
            may_alias=frozenset({("dx", "dy")}),
            compiled=bitmask.APPLY,
        ),
        spec=bits_of,
    )
