"""Zip archives at the end of model files: associated files of TFLite Model Metadata.

Offsets in such an archive usually count from the beginning of the model file, so they change when
bytes are put before it; those of an archive that was made elsewhere count from its own beginning.
Format: section 4.3 of PKWARE's APPNOTE.
"""

import struct

from odt.core.formats.file_kinds import (
    MAX_ZIP_COMMENT,
    ZIP_END,
    ZIP_END_BYTES,
    ZIP_ENTRY,
    ZIP_ENTRY_BYTES,
)
from odt.core.formats.flatbuffer.flatbuffer_edit import Patch

# Places of offsets: that of the first entry in the last record, and of a member in its entry.
CENTRAL, LOCAL = 16, 42


def offset_patches(data: memoryview, shift: int) -> list[Patch]:
    """Returns patches for the offsets of a zip archive at the end of a file, if there is one.

    None are needed if they count from the beginning of the archive.

    Args:
        data: the file.
        shift: bytes by which the archive moves.
    """
    origin, old_offsets = _offsets(data)
    if origin or not shift:
        return []
    offsets = {at: offset + shift for at, offset in old_offsets.items()}
    if not all(0 <= offset < 2**32 for offset in offsets.values()):
        return []
    return [(at, struct.pack("<I", offset)) for at, offset in offsets.items()]


def appended_archive(data: memoryview) -> bytes:
    """Returns the zip archive at the end of a file, with offsets that count from its beginning.

    Empty if there is none.
    """
    origin, offsets = _offsets(data)
    if not offsets:
        return b""
    first = min(offsets.values())
    start = origin + first
    archive = bytearray(data[start:])
    for at, offset in offsets.items():
        struct.pack_into("<I", archive, at - start, offset - first)
    return bytes(archive)


def _offsets(data: memoryview) -> tuple[int, dict[int, int]]:
    """Returns where the offsets in the archive at the end of a file count from, and place → offset.

    There are none without an archive.
    """
    none: tuple[int, dict[int, int]] = 0, {}
    tail = bytes(data[-(ZIP_END_BYTES + MAX_ZIP_COMMENT) :])
    at = tail.rfind(ZIP_END)
    if at < 0 or len(tail) - at < ZIP_END_BYTES:
        return none
    end = len(data) - len(tail) + at
    count, nbytes, start = struct.unpack_from("<HII", tail, at + 10)
    entry = end - nbytes
    origin = entry - start
    if origin < 0:
        return none
    offsets = {end + CENTRAL: start}
    for _ in range(count):
        if bytes(data[entry : entry + 4]) != ZIP_ENTRY or entry + ZIP_ENTRY_BYTES > end:
            return none
        name, extra, comment = struct.unpack_from("<3H", data, entry + 28)
        (local,) = struct.unpack_from("<I", data, entry + LOCAL)
        if local > start:
            return none
        offsets[entry + LOCAL] = local
        entry += ZIP_ENTRY_BYTES + name + extra + comment
    return origin, offsets


def shift_archive(archive: bytes, start: int) -> bytes:
    """Returns a zip archive with offsets that count from `start` bytes before it."""
    new = bytearray(archive)
    for at, data in offset_patches(memoryview(archive), start):
        new[at : at + len(data)] = data
    return bytes(new)
