"""Event files of TensorBoard.

An event file is a TFRecord: length (8 bytes), its checksum, a message, its checksum. The message is
the protocol buffer Event of TensorFlow's event.proto, of which odt writes the fields wall_time (1),
step (2), file_version (3) and summary (5); a summary has values (1) with tag (1) and simple_value
(2). Checksums are CRC-32C, rotated and offset as in TensorFlow's crc32c.h.
"""

import os
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from odt.runs.epoch_log import append

VARINT, DOUBLE, BYTES, FLOAT = 0, 1, 2, 5  # wire types
CASTAGNOLI = 0x82F63B78  # polynomial of CRC-32C, with reversed bits
MASK_DELTA = 0xA282EAD8  # added to a rotated checksum


def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (CASTAGNOLI if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """Computes the CRC-32C (Castagnoli) of bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    """Computes the checksum of a TFRecord: CRC-32C rotated right by 15 bits, plus a constant."""
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF)


def record(message: bytes) -> bytes:
    """Encodes a message as a TFRecord."""
    length = struct.pack("<Q", len(message))
    return length + masked(length) + message + masked(message)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _field(number: int, kind: int, content: bytes) -> bytes:
    size = _varint(len(content)) if kind == BYTES else b""
    return _varint(number << 3 | kind) + size + content


def event(seconds: float, step: int, **fields: bytes) -> bytes:
    """Encodes an Event with time, step and further fields."""
    numbers = {"file_version": 3, "summary": 5}
    parts = [_field(1, DOUBLE, struct.pack("<d", seconds)), _field(2, VARINT, _varint(step))]
    return b"".join([*parts, *(_field(numbers[n], BYTES, b) for n, b in fields.items())])


def scalar(tag: str, value: float) -> bytes:
    """Encodes a value of a summary."""
    content = _field(1, BYTES, tag.encode()) + _field(2, FLOAT, struct.pack("<f", value))
    return _field(1, BYTES, content)


class EventFile:
    """An event file in a folder; TensorBoard reads several of one folder as one run.

    Args:
        folder: the folder.
    """

    def __init__(self, folder: Path) -> None:
        now = time.time()
        name = f"events.out.tfevents.{now:.6f}.{os.getpid()}.odt"
        self._path = folder / name
        self._append(event(now, 0, file_version=b"brain.Event:2"))

    def add(self, row: Mapping[str, Any]) -> None:
        """Writes the values of an epoch, with the epoch as step."""
        values = [scalar(n, v) for n, v in row.items() if n != "epoch" and v is not None]
        self._append(event(time.time(), row["epoch"], summary=b"".join(values)))

    def _append(self, message: bytes) -> None:
        append(self._path, record(message))
