"""Reads tensors of ONNX: types, shapes, and values wherever a file keeps them."""

import math
import os
import stat
from collections.abc import Sequence

import numpy as np

from odt.core.formats.protobuf import Message, MessageReader, ProtobufError, Span
from odt.core.model.graph import MAX_AXES, MAX_BYTES
from odt.core.model.model import ExternalSpan
from odt.core.storage.mapped_files import map_or_read
from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array, TensorSpec

# TensorProto.DataType, from 1 on.
TYPES = (
    "float32",
    "uint8",
    "int8",
    "uint16",
    "int16",
    "int32",
    "int64",
    "string",
    "bool",
    "float16",
    "float64",
    "uint32",
    "uint64",
    "complex64",
    "complex128",
    "bfloat16",
    "float8e4m3fn",
    "float8e4m3fnuz",
    "float8e5m2",
    "float8e5m2fnuz",
    "uint4",
    "int4",
    "float4e2m1",
    "float8e8m0",
    "uint2",
    "int2",
)
NUMPY = frozenset(
    (
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    )
)
EXTERNAL = 1  # TensorProto.DataLocation
MAX_DIGITS = 19  # of an offset of 63 bits


@dataclass(frozen=True, slots=True)
class ConstantValues:
    """Values of a constant and their place.

    Attributes:
        values: the values, a view of the file where its bytes are aligned.
        span: their bytes in the model file; None if they are not there as an array.
        external: their place in another file; None for the model file.
    """

    values: Array
    span: Span | None = None
    external: ExternalSpan | None = None


def dtype_of(code: int) -> np.dtype[np.generic]:
    """Returns the dtype of a data type; for one NumPy lacks, an opaque byte with its name.

    Raises:
        ProtobufError: if there is no such type.
    """
    if not 1 <= code <= len(TYPES):
        raise ProtobufError(f"data_type must be 1 to {len(TYPES)}, but got {code}")
    name = TYPES[code - 1]
    return np.dtype(name) if name in NUMPY else np.dtype([(name.upper(), "V1")])


def checked_shape(dims: Sequence[int] | Array, what: str = "dims") -> tuple[int, ...]:
    """Returns a shape; raises ProtobufError if it has too many axes or an axis below 0."""
    if len(dims) > MAX_AXES or min(dims, default=0) < 0:
        raise ProtobufError(
            f"{what} must have at most {MAX_AXES} entries, none below 0, "
            f"but got {len(dims)}: {[*map(int, dims[:8])]}"
        )
    return tuple(map(int, dims))


def checked_spec(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> TensorSpec:
    """Returns a spec; raises ProtobufError if no memory could hold such a tensor."""
    if math.prod(n for n in shape if n) * dtype.itemsize > MAX_BYTES:
        raise ProtobufError(f"a tensor must fit into {MAX_BYTES} bytes, but got {shape} {dtype}")
    return TensorSpec(shape, dtype)


class ExternalFiles:
    """The files beside a model that hold values of its tensors.

    Args:
        path: path of the model.
    """

    def __init__(self, path: str) -> None:
        self.folder = os.path.dirname(os.path.abspath(path))
        self._files: dict[str, memoryview] = {}

    def span(self, entries: list[Message], size: int) -> ExternalSpan:
        """Returns the place of a tensor's values.

        Args:
            entries: the keys location, offset and length, and their values.
            size: bytes of the tensor.

        Raises:
            ProtobufError: if the file may not be read, or does not hold the values.
        """
        texts = {e.get("key", ""): e.get("value", "") for e in entries}
        location = texts.get("location", "")
        offset, length = (self._number(texts, k, d) for k, d in (("offset", 0), ("length", size)))
        if length != size:
            raise ProtobufError(f"external data must have its {size} bytes, but got {length}")
        data = self.open(location)
        if offset + size > len(data):
            raise ProtobufError(
                f"external data must be in {location!r}, of {len(data)} bytes, but got {size} "
                f"bytes from {offset} on. The file is incomplete or that of another model."
            )
        return ExternalSpan(location, data, offset, size)

    def _number(self, texts: dict[str, str], key: str, default: int) -> int:
        text = texts.get(key, str(default))
        if not (text.isascii() and text.isdigit()) or len(text) > MAX_DIGITS:
            raise ProtobufError(f"{key} of external data must be a number, but got {text[:40]!r}")
        return int(text)

    def open(self, location: str) -> memoryview:
        """Returns the bytes of a file.

        Raises:
            ProtobufError: if it may not be read.
        """
        if location in self._files:
            return self._files[location]
        rule = "external data must be in a file inside the model's folder"
        parts = location.replace("\\", "/").split("/")
        drive = os.path.splitdrive(location)[0]
        if not location or "\0" in location or drive or parts[0] == "" or ".." in parts:
            raise ProtobufError(f"{rule}, but got {location[:80]!r}")
        name = os.path.join(self.folder, location)
        inside = os.path.realpath(self.folder)
        if os.path.commonpath([inside, os.path.realpath(name)]) != inside:
            raise ProtobufError(f"{rule}, but got {location[:80]!r}, a link to outside")
        try:
            handle = os.open(
                name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
            )
            try:
                status = os.fstat(handle)
                if not stat.S_ISREG(status.st_mode):
                    raise ProtobufError(f"{rule}, but got {location[:80]!r}, which is no file")
                data = memoryview(map_or_read(handle, name) if status.st_size else b"")
            finally:
                os.close(handle)
        except OSError as e:
            reason = (e.strerror or str(e)).lower()
            raise ProtobufError(
                f"{rule}, but got {location[:80]!r}: {reason}. Keep the model's files together."
            ) from e
        self._files[location] = data
        return data


def read_tensor(reader: MessageReader, message: Message, files: ExternalFiles) -> ConstantValues:
    """Reads a tensor with its values.

    Raises:
        ProtobufError: if its values do not have its type and shape.
    """
    dtype = dtype_of(message.get("data_type", 0))
    shape = checked_shape(reader.numbers(message.get("dims", [])))
    spec = checked_spec(shape, dtype)
    if "segment" in message:
        raise ProtobufError("a tensor must not be in segments, but got one")
    if message.get("data_location") == EXTERNAL:
        if dtype.kind == "V":
            return ConstantValues(np.zeros(0, np.uint8))
        place = files.span(message.get("external_data", []), spec.nbytes)
        return ConstantValues(
            _view(place.data, spec, Span(place.offset, place.size)), external=place
        )
    if dtype.kind == "V":  # no operator takes it
        return ConstantValues(np.zeros(0, np.uint8))
    span = message.get("raw_data")
    if span is None:
        numbers = _numbers(reader, message, spec)
        if not isinstance(numbers, Span):
            return ConstantValues(numbers)
        span = numbers
    if span.size != spec.nbytes:
        raise ProtobufError(f"{spec} must have {spec.nbytes} bytes, but got {span.size}")
    return ConstantValues(_view(reader.data, spec, span), span)


def _view(data: memoryview, spec: TensorSpec, span: Span) -> Array:
    """Returns values of a file; a copy if their bytes are not aligned, which kernels need."""
    if not spec.size:
        return np.zeros(spec.shape, spec.dtype)
    little = spec.dtype.newbyteorder("<")
    values = np.frombuffer(data, np.uint8, span.size, span.offset)
    if values.ctypes.data % spec.dtype.alignment or little != spec.dtype:
        values = np.frombuffer(values.tobytes(), np.uint8)
    values = values.view(little).reshape(spec.shape)
    return values if little == spec.dtype else values.astype(spec.dtype)


def _numbers(reader: MessageReader, message: Message, spec: TensorSpec) -> Array | Span:
    """Returns values that are numbers of the message, or the place of their bytes."""
    kind = spec.dtype
    name = {"f": "float_data", "c": "float_data"}.get(kind.kind, "int32_data")
    if kind in (np.float64, np.complex128):
        name = "double_data"
    elif kind == np.int64:
        name = "int64_data"
    elif kind in (np.uint32, np.uint64):
        name = "uint64_data"
    values = message.get(name, [])
    if name in ("float_data", "double_data"):
        if len(values) == 1:
            only: Span = values[0]
            return only
        joined = b"".join(bytes(reader.data[s.offset : s.end]) for s in values)
        if len(joined) != spec.nbytes:
            raise ProtobufError(f"{spec} must have {spec.nbytes} bytes, but got {len(joined)}")
        return np.frombuffer(joined, kind.newbyteorder("<")).astype(kind).reshape(spec.shape)
    numbers = reader.numbers(values)
    if len(numbers) != spec.size:
        raise ProtobufError(f"{spec} must have {spec.size} values, but got {len(numbers)}")
    if kind == np.float16:
        return numbers.astype(np.uint16).view(np.float16).reshape(spec.shape)
    return numbers.astype(kind).reshape(spec.shape)
