"""Names of files with external data in an ONNX model: which there are, and how to change them.

The reader leaves out graphs and functions that odt does not compute; their tensors have external
data, too, so that this module looks for names in all messages that may hold tensors.
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from odt.core.formats.protobuf import (
    BYTES,
    MAX_DEPTH,
    VARINT,
    ProtobufError,
    Span,
    encode_varint,
    read_fields,
    read_varint,
)

Patch: TypeAlias = tuple[int, int, memoryview]  # offset and size of old bytes, and new ones
Places: TypeAlias = "dict[int, Places]"  # number of a field → the same of its message

KEY, VALUE = 1, 2  # fields of an external_data entry
ENTRY: Places = {}
TENSOR: Places = {13: ENTRY}
SPARSE: Places = {1: TENSOR, 2: TENSOR}
GRAPH: Places = {}
ATTRIBUTE: Places = {5: TENSOR, 6: GRAPH, 10: TENSOR, 11: GRAPH, 22: SPARSE, 23: SPARSE}
NODE: Places = {5: ATTRIBUTE}
GRAPH |= {1: NODE, 5: TENSOR, 15: SPARSE}
MODEL: Places = {7: GRAPH, 20: {1: GRAPH, 2: GRAPH}, 25: {7: NODE, 11: ATTRIBUTE}}


def external_locations(data: memoryview) -> tuple[str, ...]:
    """Returns the names of all files with external data, as in the model.

    Raises:
        ProtobufError: if the bytes are no messages.
    """
    spans = _locations(data, Span(0, len(data)), MODEL, 0)
    return tuple(dict.fromkeys(_text(data, span) for span in spans))


def relocations(data: memoryview, names: Mapping[str, str]) -> list[Patch]:
    """Returns the patches that give files with external data other names.

    Args:
        data: all bytes of the model.
        names: name → new name.

    Raises:
        ProtobufError: if the bytes are no messages.
    """
    changed = {old: new for old, new in names.items() if old != new}
    return _patches(data, Span(0, len(data)), MODEL, changed, 0)[0] if changed else []


def _locations(data: memoryview, span: Span, places: Places, depth: int) -> Iterator[Span]:
    """Yields the places of the names of files in a message."""
    if places is ENTRY:
        location = _location(data, span)
        if location is not None:
            yield location
        return
    for number, _, value in _messages(data, span, depth):
        if number in places:
            yield from _locations(data, value, places[number], depth + 1)


def _patches(
    data: memoryview, span: Span, places: Places, names: Mapping[str, str], depth: int
) -> tuple[list[Patch], int]:
    """Returns the patches of a message, and the number of bytes that it grows by."""
    patches: list[Patch] = []
    growth = 0
    location = _location(data, span) if places is ENTRY else None
    for number, length, value in _messages(data, span, depth):
        if value == location:
            new = names.get(_text(data, value), "").encode()
            inner = [(value.offset, value.size, memoryview(new))] if new else []
            growth_of_value = len(new) - value.size
        elif number in places:
            inner, growth_of_value = _patches(data, value, places[number], names, depth + 1)
        else:
            continue
        if inner:
            size = encode_varint(value.size + growth_of_value)
            patches += [(length, value.offset - length, memoryview(size)), *inner]
            growth += growth_of_value + len(size) - (value.offset - length)
    return patches, growth


def _messages(data: memoryview, span: Span, depth: int) -> Iterator[tuple[int, int, Span]]:
    """Yields the fields of bytes: number, place of the length, place of the value."""
    if depth > MAX_DEPTH:
        raise ProtobufError(f"messages must be at most {MAX_DEPTH} deep, but got more")
    at = span.offset
    for number, wire, value in read_fields(data, span):
        _, at = read_varint(data, at, span.end)
        if isinstance(value, Span):
            if wire == BYTES:
                yield number, at, value
            at = value.end
        elif wire == VARINT:
            _, at = read_varint(data, at, span.end)


def _location(data: memoryview, entry: Span) -> Span | None:
    """Returns the place of the value of an entry with the key location; None for other keys."""
    values = {number: value for number, _, value in _messages(data, entry, 0)}
    key = values.get(KEY)
    return values.get(VALUE) if key is not None and _text(data, key) == "location" else None


def _text(data: memoryview, span: Span) -> str:
    return str(data[span.offset : span.end], "utf-8", "replace")
