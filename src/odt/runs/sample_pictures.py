"""Samples as pictures of a page."""

import struct
import zlib

import numpy as np

from odt.datasets.contact_sheet import picture
from odt.kernels.rows.opdef import Array


def upright(row: Array, shape: tuple[int, ...], kind: str) -> Array:
    """Draws a sample as `picture`; of a spectrogram, time runs from left to right.

    Args:
        row: the sample, flat.
        shape: its shape.
        kind: image, sound or features.
    """
    pixels = picture(row, shape)
    is_spectrogram = kind == "sound" and len(shape) > 1
    return np.ascontiguousarray(np.rot90(pixels)) if is_spectrogram else pixels


def png(pixels: Array) -> bytes:
    """Encodes bytes (H, W, 3) as PNG."""
    high, wide, _ = pixels.shape

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)

    head = struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)  # 8 bits, RGB
    lines = np.pad(pixels.reshape(high, -1), ((0, 0), (1, 0)))  # each line begins with filter 0
    body = zlib.compress(lines.astype(np.uint8).tobytes(), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
