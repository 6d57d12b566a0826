"""Writes GGUF files: metadata entries and tensors."""

import struct
from collections.abc import Iterator, Mapping

import numpy as np

from odt.core.formats.gguf.reader import (
    ALIGNMENT,
    ARRAY,
    DEFAULT_ALIGNMENT,
    MAGIC,
    NUMBERS,
    TEXT,
    VERSION,
    GgufTensor,
    Metadata,
    Value,
)
from odt.core.formats.gguf.tensor_types import CODES, TYPES
from odt.kernels.rows.opdef import Array

NUMBER_CODES = {dtype: code for code, dtype in NUMBERS.items()}
FLOATS = {np.dtype(np.float32): "F32", np.dtype(np.float16): "F16"}


def encode(metadata: Metadata, tensors: Mapping[str, GgufTensor]) -> Iterator[bytes | memoryview]:
    """Yields the bytes of a file.

    Args:
        metadata: entries by name. A whole number of Python is stored as uint32, a float as float32;
            numbers of NumPy keep their type.
        tensors: tensors by name.
    """
    entries = b"".join(_text(name) + _typed(value) for name, value in metadata.items())
    yield from encode_with(entries, len(metadata), tensors, metadata.get(ALIGNMENT))


def encode_with(
    entries: bytes | memoryview,
    count: int,
    tensors: Mapping[str, GgufTensor],
    alignment: int | None = None,
) -> Iterator[bytes | memoryview]:
    """Yields the bytes of a file with the metadata of another.

    Args:
        entries: the bytes of all metadata entries, as `Gguf.entries`.
        count: how many these are.
        tensors: tensors by name.
        alignment: alignment of the tensors that the metadata states; None for the default.
    """
    alignment = alignment or DEFAULT_ALIGNMENT
    offset = 0
    described = []
    for name, tensor in tensors.items():
        described.append(_description(name, tensor, offset))
        offset += tensor.data.nbytes + -tensor.data.nbytes % alignment
    head = MAGIC + struct.pack("<IQQ", VERSION, len(tensors), count)
    size = len(head) + len(entries) + sum(map(len, described))
    yield head
    yield entries
    yield from described
    if tensors:
        yield bytes(-size % alignment)
    for tensor in tensors.values():
        yield tensor.data.data
        yield bytes(-tensor.data.nbytes % alignment)


def float_tensor(values: Array) -> GgufTensor:
    """Returns a tensor of float32 or float16 values."""
    kind = TYPES[CODES[FLOATS[values.dtype]]]
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return GgufTensor(values.shape, kind, little.reshape(-1).view(np.uint8))


def _description(name: str, tensor: GgufTensor, offset: int) -> bytes:
    """Returns name, axes from the last to the first, type and offset of a tensor."""
    axes = tensor.shape[::-1]
    numbers = struct.pack(f"<I{len(axes)}Q", len(axes), *axes)
    return _text(name) + numbers + struct.pack("<IQ", CODES[tensor.kind.name], offset)


def _typed(value: Value | np.generic) -> bytes:
    """Returns type and value of a metadata entry."""
    if isinstance(value, str):
        return struct.pack("<I", TEXT) + _text(value)
    if isinstance(value, list):
        return struct.pack("<IIQ", ARRAY, TEXT, len(value)) + b"".join(map(_text, value))
    numbers = np.asarray(value) if isinstance(value, np.ndarray | np.generic) else _number(value)
    little = numbers.dtype.newbyteorder("<")
    kind = struct.pack("<I", NUMBER_CODES[little])
    if numbers.ndim:
        kind = struct.pack("<I", ARRAY) + kind + struct.pack("<Q", numbers.size)
    return kind + numbers.astype(little).tobytes()


def _number(value: float) -> Array:
    """Returns a number of Python in the type that it is stored in."""
    if isinstance(value, bool):
        return np.array(value)
    return np.array(value, np.uint32 if isinstance(value, int) else np.float32)


def _text(text: str) -> bytes:
    """Returns the number of bytes of a text and its UTF-8."""
    data = text.encode()
    return struct.pack("<Q", len(data)) + data
