"""Files of safetensors: arrays by name, and texts by name that describe them.

A file holds the length of its header (8 bytes, little-endian), the header, and the bytes of all
arrays, one after another. The header is JSON: name → dtype, shape, and where the bytes of the array
begin and end behind the header; `__metadata__` → the texts.
Source: *Format* in the documentation of safetensors.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from io import BufferedReader
from typing import Any, TypeAlias

import numpy as np

from odt.core.model.bfloat16 import from_bfloat16
from odt.core.storage.json_text import without_repetition
from odt.core.storage.reading import check_shape, listed
from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array

METADATA = "__metadata__"
LENGTH_NBYTES = 8
MAX_HEADER = 1 << 24  # bytes: 100,000 arrays, read in less than a second
BFLOAT16 = "BF16"
# Types of real numbers; those of bfloat16 are read as their bits.
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", BFLOAT16: "<u2"}
Metadata: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """An array of a file.

    Attributes:
        dtype: key of DTYPES.
        shape: lengths of its axes.
        begin: position in the file of its first byte.
        end: position in the file behind its last byte.
    """

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    def read(self, file: BufferedReader) -> Array:
        """Reads the array as float32.

        Raises:
            ValueError: if the file has become shorter, or a number is not finite as float32.
        """
        file.seek(self.begin)
        stored = np.frombuffer(file.read(self.end - self.begin), DTYPES[self.dtype])
        if self.dtype == BFLOAT16:
            stored = from_bfloat16(stored)
        with np.errstate(over="ignore"):
            values = stored.reshape(self.shape).astype(np.float32)
        if not np.isfinite(values).all():
            raise ValueError("an array with numbers that are not finite as float32")
        return values


def encode(arrays: Mapping[str, Array], metadata: Metadata) -> Iterator[bytes]:
    """Yields the bytes of a file.

    Args:
        arrays: float32 arrays by name.
        metadata: texts by name.
    """
    header: dict[str, Any] = {METADATA: dict(metadata)}
    begin = 0
    for name, values in arrays.items():
        end = begin + values.nbytes
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": (begin, end)}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % LENGTH_NBYTES)  # readers map the arrays, which are then aligned
    yield len(text).to_bytes(LENGTH_NBYTES, "little")
    yield text
    for values in arrays.values():
        yield values.astype("<f4").tobytes()


def read_header(file: BufferedReader) -> tuple[dict[str, Entry], Metadata]:
    """Reads which arrays a file holds, and the texts that describe them.

    Raises:
        ValueError: if the file breaks a rule of the format, or has numbers that are not real.
    """
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(LENGTH_NBYTES), "little")
    data = LENGTH_NBYTES + length
    if size < LENGTH_NBYTES or data > size:
        raise ValueError(f"{size} bytes, and a header of {length}")
    if length > MAX_HEADER:
        raise ValueError(f"a header of {length} bytes, above {MAX_HEADER}")
    header = json.loads(file.read(length), object_pairs_hook=without_repetition)
    if not isinstance(header, dict):
        raise ValueError("a header that is no object of JSON")
    metadata = header.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ValueError(f"{METADATA} that holds not texts alone")
    entries = {name: _entry(name, fields, data) for name, fields in header.items()}
    end = data
    for entry in sorted(entries.values(), key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != end:
            raise ValueError(f"an array at byte {entry.begin} where one at {end} is due")
        end = entry.end
    if end != size:
        raise ValueError(f"{size} bytes, and arrays of which the last ends at {end}")
    return entries, metadata


def _entry(name: str, fields: Any, data: int) -> Entry:
    """Returns an array of the header; `data` is the position in the file of the first array."""
    if not isinstance(fields, dict) or fields.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{listed([name])} without dtype, shape and data_offsets alone")
    dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"{listed([name])} of dtype {listed([dtype])}, not {', '.join(DTYPES)}")
    if not isinstance(shape, list) or not isinstance(offsets, list):
        raise ValueError(f"{listed([name])} with a shape or data_offsets that are no lists")
    itemsize = np.dtype(DTYPES[dtype]).itemsize
    check_shape(shape, itemsize)
    are_offsets = len(offsets) == 2 and all(type(n) is int and n >= 0 for n in offsets)
    if not are_offsets or offsets[1] - offsets[0] != math.prod(shape) * itemsize:
        raise ValueError(
            f"{listed([name])} of shape ({listed(shape)}) and {dtype} at bytes {listed(offsets)}"
        )
    return Entry(dtype, tuple(shape), data + offsets[0], data + offsets[1])
