"""Zip archives at the end of model files: associated files of TFLite Model Metadata.

Offsets in such an archive count from the beginning of the model file, so they change when bytes
are put before it. Format: section 4.3 of PKWARE's APPNOTE.
"""

import struct

from odt.core.export.flatbuffer_edit import Patch

END, ENTRY = b"PK\x05\x06", b"PK\x01\x02"  # signatures
END_BYTES, ENTRY_BYTES = 22, 46  # without names and comments
MOST_COMMENT = 1 << 16
CENTRAL, LOCAL = 16, 42  # places of the offsets in these two records


def offset_patches(data: memoryview, shift: int) -> list[Patch]:
    """Returns patches for the offsets of a zip archive at the end of a file, if there is one.

    Args:
        data: the file.
        shift: bytes by which the archive moves.
    """
    tail = bytes(data[-(END_BYTES + MOST_COMMENT) :])
    at = tail.rfind(END)
    if not shift or at < 0 or len(tail) - at < END_BYTES:
        return []
    end = len(data) - len(tail) + at
    count, nbytes, start = struct.unpack_from("<HII", tail, at + 10)
    entry = end - nbytes
    if entry != start:  # no archive, or its offsets count from its beginning
        return []
    patches = [(end + CENTRAL, struct.pack("<I", start + shift))]
    for _ in range(count):
        if bytes(data[entry : entry + 4]) != ENTRY or entry + ENTRY_BYTES > end:
            return []
        name, extra, comment = struct.unpack_from("<3H", data, entry + 28)
        (local,) = struct.unpack_from("<I", data, entry + LOCAL)
        patches.append((entry + LOCAL, struct.pack("<I", local + shift)))
        entry += ENTRY_BYTES + name + extra + comment
    return list(patches) if 0 <= start + shift < 2**32 else []


def moved(archive: bytes, start: int) -> bytes:
    """Returns a zip archive with offsets that count from `start` bytes before it."""
    new = bytearray(archive)
    for at, data in offset_patches(memoryview(archive), start):
        new[at : at + len(data)] = data
    return bytes(new)


def archive_after(data: memoryview, start: int) -> bytes:
    """Returns the zip archive at the end of a file, with offsets for another place in a file.

    Args:
        data: the file.
        start: where the archive begins in the other file.

    Returns:
        The archive; empty if there is none whose offsets count from the beginning of the file.
    """
    entries = [new for _, new in offset_patches(data, 1)[1:]]
    if not entries:
        return b""
    first = min(struct.unpack("<I", new)[0] - 1 for new in entries)
    archive = bytearray(data[first:])
    for at, new in offset_patches(data, start - first):
        archive[at - first : at - first + len(new)] = new
    return bytes(archive)
