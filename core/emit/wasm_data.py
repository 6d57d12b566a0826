"""The code and the data of a WebAssembly module, apart.

A module that JavaScript compiles while it loads should be small; the weights are most of its data.
Format: https://webassembly.github.io/spec/core/binary/modules.html
"""

from collections.abc import Iterator
from typing import NamedTuple

PREFIX = b"\0asm\x01\0\0\0"
DATA, DATA_COUNT = 11, 12  # sections
ACTIVE, I32_CONST, END = 0, 0x41, 0x0B  # a segment of data with the address as a constant


class Segment(NamedTuple):
    """Bytes that memory holds at an address when the program begins."""

    address: int
    data: bytes


def without_data(module: bytes) -> tuple[bytes, list[Segment]]:
    """Returns a module without its data, and the data."""
    assert module.startswith(PREFIX), "what the linker writes is a module"
    code, segments = bytearray(PREFIX), list[Segment]()
    for number, first, end in _sections(module):
        content = _unsigned(module, first + 1)[1]
        if number == DATA:
            segments += _segments(module, content)
        elif number != DATA_COUNT:
            code += module[first:end]
    return bytes(code), segments


def _sections(module: bytes) -> Iterator[tuple[int, int, int]]:
    """Yields number, first byte and end of each section."""
    first = len(PREFIX)
    while first < len(module):
        size, content = _unsigned(module, first + 1)
        yield module[first], first, content + size
        first = content + size


def _segments(module: bytes, at: int) -> Iterator[Segment]:
    """Yields the segments of a data section, whose content begins at a byte."""
    count, at = _unsigned(module, at)
    for _ in range(count):
        kind, at = _unsigned(module, at)
        assert (kind, module[at]) == (ACTIVE, I32_CONST), "the linker places all data"
        address, at = _signed(module, at + 1)
        assert module[at] == END, "an address is one constant"
        size, at = _unsigned(module, at + 1)
        yield Segment(address, module[at : at + size])
        at += size


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    """Returns a LEB128 number and the byte after it."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    """Returns a signed LEB128 number and the byte after it."""
    value, end = _unsigned(data, at)
    bits = 7 * (end - at)
    return value - (1 << bits if value >> (bits - 1) else 0), end
