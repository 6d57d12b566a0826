"""Reads IDX, the format of MNIST: a header of sizes followed by bytes, optionally gzipped.

Bytes 0 0, type 8 (unsigned byte), number of axes, one big-endian 32-bit size per axis, values.
Source: the description at the end of the MNIST page, http://yann.lecun.com/exdb/mnist/.
"""

import gzip
import math
import struct
import tempfile
from typing import IO, Any, cast

import numpy as np

from odt.core.storage.reading import guard, reading
from odt.datasets.tree import COPY, Tree
from odt.errors import DataError
from odt.kernels.rows.opdef import Array

UNSIGNED_BYTE = 8


def read_idx(tree: Tree, name: str, axes: int) -> Array:
    """Reads an array of unsigned bytes, mapped from an unpacked, unnamed temporary copy.

    Args:
        tree: folder or archive.
        name: name of the file.
        axes: number of axes that the array must have.

    Raises:
        DataError: if the file is not in this format, damaged, or shorter than its header says.
    """
    where = tree.where(name)
    with (
        reading(where, "must be a valid IDX file"),
        tree.open(name) as packed,
        _unzipped(packed) as stream,
    ):
        return _read(stream, where, axes, tree.sizes[name])


def _read(stream: IO[bytes], where: str, axes: int, packed: int) -> Array:
    header = _exactly(stream, 4)
    zero, kind, count = struct.unpack(">HBB", header)
    if zero or kind != UNSIGNED_BYTE or count != axes:
        raise DataError(
            f"{where}: must be IDX of unsigned bytes with {axes} axes, but begins with "
            f"{header.hex(' ')}."
        )
    shape = struct.unpack(f">{axes}I", _exactly(stream, 4 * axes))
    nbytes = math.prod(shape)
    guard(where, packed, nbytes)
    with tempfile.TemporaryFile() as plain:
        remaining = nbytes
        while remaining:
            chunk = _exactly(stream, min(COPY, remaining))
            plain.write(chunk)
            remaining -= len(chunk)
        if stream.read(1):
            raise DataError(
                f"{where}: must hold the {nbytes} bytes {shape} of its header, but there are more."
            )
        if not nbytes:
            return np.empty(shape, np.uint8)
        plain.flush()
        return np.memmap(cast(Any, plain), np.uint8, "r", 0, shape)


def _exactly(stream: IO[bytes], n: int) -> bytes:
    data = stream.read(n)
    if len(data) < n:
        raise EOFError("it is shorter than its header says")
    return data


def _unzipped(stream: IO[bytes]) -> IO[bytes]:
    start = stream.read(2)
    stream.seek(0)
    return cast(IO[bytes], gzip.GzipFile(fileobj=stream)) if start == b"\x1f\x8b" else stream
