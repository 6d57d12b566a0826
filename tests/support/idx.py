"""Writes IDX files in the format of the MNIST page."""

import gzip
import struct
from pathlib import Path

import numpy as np

from odt.kernels.rows.opdef import Array


def idx(a: Array) -> bytes:
    return struct.pack(f">HBB{a.ndim}I", 0, 8, a.ndim, *a.shape) + a.astype(np.uint8).tobytes()


def write_mnist(folder: Path, train: int = 20, test: int = 10, classes: int = 10) -> Array:
    """Writes a small set of random images as MNIST's four files; returns the training images."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    kept = None
    for part, n in (("train", train), ("t10k", test)):
        images = random.integers(0, 256, (n, 28, 28), np.uint8)
        labels = np.arange(n, dtype=np.uint8) % classes
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
        kept = images if kept is None else kept
    assert kept is not None
    return kept
