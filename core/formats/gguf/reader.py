"""Reads GGUF files: for any bytes, metadata and tensors, or one ModelError.

A file begins with GGUF, the version, the numbers of tensors and of metadata entries. Entries
follow (name, type, value), then descriptions of the tensors (name, axes from the last to the first,
type, offset), then the bytes of the tensors, each at a multiple of the alignment. Each length is
compared with the bytes that are left before anything is read. Source: the specification of GGUF,
version 3.
"""

import math
import os
import struct
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from odt.core.formats.gguf.tensor_types import TYPES, TensorType
from odt.core.storage.mapped_files import map_or_read
from odt.core.storage.reading import open_input, printable, reading
from odt.dataclass import dataclass
from odt.errors import ModelError
from odt.kernels.rows.opdef import Array

MAGIC = b"GGUF"
ENTRY = "GGUF"  # of the metadata of converted models: the metadata of the file, without tensors
VERSION = 3
ALIGNMENT = "general.alignment"  # of tensors
DEFAULT_ALIGNMENT = 32
MAX_ALIGNMENT = 1 << 16
MAX_ENTRIES = 1 << 16  # of metadata, and of tensors
MAX_TEXTS = 1 << 20  # in arrays of a file; large vocabularies and merges have 600,000
MAX_AXES = 4
MAX_NAME = 256  # bytes of the name of an entry or tensor
TEXT, ARRAY = 8, 9  # types of metadata values that are no numbers
NUMBERS = {  # type of a metadata value → dtype
    code: np.dtype(name)
    for code, name in {
        0: "<u1",
        1: "<i1",
        2: "<u2",
        3: "<i2",
        4: "<u4",
        5: "<i4",
        6: "<f4",
        7: "?",
        10: "<u8",
        11: "<i8",
        12: "<f8",
    }.items()
}
# Values of metadata: arrays of numbers are those of NumPy, arrays of texts are lists.
Value: TypeAlias = int | float | bool | str | list[str] | Array
Metadata: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor of a file.

    Attributes:
        shape: lengths of its axes, in the order of NumPy: values of the last one are neighbors.
        kind: its type.
        data: its bytes, a view of the file.
    """

    shape: tuple[int, ...]
    kind: TensorType
    data: Array

    def rows(self) -> Array:
        """Returns the bytes as rows (M, bytes), each of the values along the last axis."""
        return self.data.reshape(math.prod(self.shape[:-1]), -1)


@dataclass(frozen=True, slots=True)
class Gguf:
    """A GGUF file.

    Attributes:
        path: path as the user named it; messages begin with it.
        metadata: entries by name.
        entries: the bytes of all metadata entries.
        tensors: tensors by name, in the order of the file.
    """

    path: str
    metadata: Metadata
    entries: memoryview
    tensors: Mapping[str, GgufTensor]


def is_gguf(data: memoryview) -> bool:
    """Whether a file begins like a GGUF file."""
    return bytes(data[: len(MAGIC)]) == MAGIC


def entry_text(metadata: Metadata, name: str, default: object) -> str:
    """Returns an entry as text, to compare and to show: arrays do not compare as one value."""
    return printable(metadata.get(name, default))


def read_gguf(path: str | os.PathLike[str]) -> Gguf:
    """Maps and checks a file.

    Raises:
        ModelError: if the file cannot be read, or breaks a rule of the format.
    """
    name = os.fspath(path)
    with open_input(name, error=ModelError) as file, reading(name, "must be a file", ModelError):
        if not os.fstat(file.fileno()).st_size:
            raise ModelError(f"{name}: must be a GGUF file, but got 0 bytes.")
        data = map_or_read(file.fileno(), name)
    return parse_gguf(memoryview(data), name)


def parse_gguf(data: memoryview, name: str) -> Gguf:
    """Checks the bytes of a file.

    Args:
        data: all bytes of the file, read-only.
        name: the file's name in messages.

    Raises:
        ModelError: if they break a rule of the format.
    """
    return _Parser(data, name).parse()


class _Parser:
    """Reads a file from the beginning.

    Attributes:
        at: position of the next byte.
        where: the part that is being read, for messages.
    """

    def __init__(self, data: memoryview, path: str) -> None:
        self.data, self.path = data, path
        self.at, self.where = 0, "header"
        self.texts = 0  # in arrays, so far

    def parse(self) -> Gguf:
        """Returns the file."""
        if not is_gguf(self.data):
            got = bytes(self.data[: len(MAGIC)])
            raise self.error(f"a GGUF file must begin with {MAGIC.decode()}, but got {got!r}.")
        self.at = len(MAGIC)
        self._version()
        tensors, entries = self._count("tensors"), self._count("metadata entries")
        begin = self.at
        metadata: dict[str, Value] = {}
        for k in range(entries):
            self.where = f"metadata entry {k}"
            name = self._name(metadata)
            metadata[name] = self._value(self.number("<u4"))
        end = self.at
        described: dict[str, tuple[tuple[int, ...], TensorType, int]] = {}
        for k in range(tensors):
            self.where = f"tensor {k}"
            name = self._name(described)
            described[name] = self._description()
        return Gguf(
            self.path,
            metadata,
            self.data[begin:end],
            self._tensors(described, self._alignment(metadata)),
        )

    def error(self, text: str) -> ModelError:
        """Returns an error with the file's name and the part that is being read."""
        return ModelError(f"{self.path}: {self.where}: {text}")

    def number(self, dtype: str | np.dtype[Any]) -> Any:
        """Reads a number."""
        dtype = np.dtype(dtype)
        return np.frombuffer(self.take(dtype.itemsize), dtype)[0].item()

    def take(self, count: int, size: int = 1) -> memoryview:
        """Returns the next bytes: `count` items of `size` bytes.

        Raises:
            ModelError: if the file does not have them.
        """
        left = len(self.data) - self.at
        if count > left // size:
            raise self.error(
                f"the file must go on for {count} items of {size} bytes from byte {self.at} on, "
                f"but got {left} bytes. It is damaged or incomplete."
            )
        self.at += count * size
        return self.data[self.at - count * size : self.at]

    def text(self) -> str:
        """Reads a text: the number of its bytes and UTF-8."""
        start = self.at
        try:
            return str(self.take(int.from_bytes(self.take(8), "little")), "utf-8")
        except UnicodeDecodeError as e:
            raise self.error(f"texts must be UTF-8, but got other bytes at byte {start}.") from e

    def _version(self) -> None:
        """Checks the version."""
        version = self.number("<u4")
        if version == VERSION:
            return
        (swapped,) = struct.unpack(">I", struct.pack("<I", version))
        if swapped == VERSION:
            raise self.error("numbers must be little-endian, but got a big-endian file.")
        raise self.error(
            f"the version must be {VERSION}, but got {version}. Make it again with a new llama.cpp."
        )

    def _count(self, what: str) -> int:
        """Reads how many of something the file has."""
        count: int = self.number("<u8")
        if count > MAX_ENTRIES:
            raise self.error(f"there must be at most {MAX_ENTRIES} {what}, but got {count}.")
        return count

    def _name(self, earlier: Mapping[str, Any]) -> str:
        """Reads a name, which must be new."""
        name = self.text()
        if not name or len(name.encode()) > MAX_NAME:
            raise self.error(
                f"a name must have 1 to {MAX_NAME} bytes, but got {len(name.encode())}."
            )
        if name in earlier:
            raise self.error(f"names must be different, but got {printable(name)} twice.")
        self.where += f" ({printable(name)})"
        return name

    def _value(self, code: int) -> Value:
        """Reads the value of a metadata entry of a type."""
        if code in NUMBERS:
            value: Value = self.number(NUMBERS[code])
            return value
        if code == TEXT:
            return self.text()
        if code != ARRAY:
            raise self.error(f"the type of a value must be 0 to 12, but got {code}.")
        kind, count = self.number("<u4"), self.number("<u8")
        if kind in NUMBERS:
            dtype = NUMBERS[kind]
            return np.frombuffer(self.take(count, dtype.itemsize), dtype)
        if kind != TEXT:
            raise self.error(f"arrays must be of numbers or texts, but got type {kind}.")
        self.texts += count
        if self.texts > MAX_TEXTS:
            raise self.error(
                f"a file must have at most {MAX_TEXTS} texts in arrays, but got {self.texts}."
            )
        return [self.text() for _ in range(count)]

    def _description(self) -> tuple[tuple[int, ...], TensorType, int]:
        """Reads shape, type and offset of a tensor."""
        axes = self.number("<u4")
        if axes > MAX_AXES:
            raise self.error(f"a tensor must have at most {MAX_AXES} axes, but got {axes}.")
        shape = tuple(self.number("<u8") for _ in range(axes))[::-1]
        code, offset = self.number("<u4"), self.number("<u8")
        kind = TYPES.get(code)
        if kind is None:
            raise self.error(f"its type must be one of GGML that odt knows, but got code {code}.")
        if not all(shape) or (shape[-1] if shape else 1) % kind.values:
            raise self.error(
                f"its axes must not be empty, and the last one a multiple of {kind.values} for "
                f"{kind.name}, but got {shape}."
            )
        return shape, kind, offset

    def _alignment(self, metadata: Metadata) -> int:
        """Returns the alignment of tensors."""
        self.where = "metadata"
        alignment = metadata.get(ALIGNMENT, DEFAULT_ALIGNMENT)
        is_number = type(alignment) is int and 8 <= alignment <= MAX_ALIGNMENT
        if not is_number or alignment & (alignment - 1):
            raise self.error(
                f"{ALIGNMENT} must be a power of 2 from 8 to {MAX_ALIGNMENT}, but got "
                f"{printable(alignment)}."
            )
        return int(alignment)

    def _tensors(
        self, described: Mapping[str, tuple[tuple[int, ...], TensorType, int]], alignment: int
    ) -> dict[str, GgufTensor]:
        """Returns the tensors as views of the file, which must not overlap."""
        start = self.at + -self.at % alignment
        tensors = {}
        places = []
        for name, (shape, kind, offset) in described.items():
            self.where = f"tensor {printable(name)}"
            if offset % alignment:
                raise self.error(f"its offset must be a multiple of {alignment}, but got {offset}.")
            self.at = start + offset
            # Axes beyond the file are refused here: a product of four fits Python's integers.
            data = self.take(math.prod(shape) // kind.values, kind.nbytes)
            places.append((offset, self.at, name))
            tensors[name] = GgufTensor(shape, kind, np.frombuffer(data, np.uint8))
        places.sort()
        for (_, end, name), (offset, _, other) in pairwise(places):
            if start + offset < end:
                self.where = f"tensor {printable(other)}"
                raise self.error(f"tensors must not overlap, but it begins in {printable(name)}.")
        return tensors
