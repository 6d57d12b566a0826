"""GGUF files, written from the specification without odt."""

import struct
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

Tensor = tuple[tuple[int, ...], int, bytes]  # shape, code of the type, bytes
U32, I32, F32, BOOL, TEXT, ARRAY = 4, 5, 6, 7, 8, 9  # types of values
FORMS = {U32: "I", I32: "i", F32: "f", BOOL: "?"}


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind: int, content: Any) -> bytes:
    """Returns a value of a type without the type."""
    return text(content) if kind == TEXT else struct.pack(f"<{FORMS[kind]}", content)


def kind_of(content: Any) -> int:
    kinds = {bool: BOOL, int: U32, float: F32, str: TEXT}
    return kinds[type(content)]


def typed(content: Any) -> bytes:
    """Returns type and value; a list has the type of its first item, or int32 for numbers."""
    if isinstance(content, list):
        kind = TEXT if content and isinstance(content[0], str) else I32
        items = b"".join(value(kind, item) for item in content)
        return struct.pack("<IIQ", ARRAY, kind, len(content)) + items
    kind = kind_of(content)
    return struct.pack("<I", kind) + value(kind, content)


def gguf(metadata: Mapping[str, Any], tensors: Mapping[str, Tensor], alignment: int = 32) -> bytes:
    """Returns the bytes of a file."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for name, content in metadata.items():
        head += text(name) + typed(content)
    body = b""
    for name, (shape, code, data) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape))
        head += b"".join(struct.pack("<Q", n) for n in reversed(shape))
        head += struct.pack("<IQ", code, len(body))
        body += data + bytes(-len(data) % alignment)
    return head + bytes(-len(head) % alignment if tensors else 0) + body


def float32(values: NDArray[Any]) -> Tensor:
    """Returns a tensor of float32."""
    return values.shape, 0, values.astype("<f4").tobytes()
