"""Puts the data of large buffers behind a flatbuffer, so that a file is written part by part.

Offsets in a flatbuffer point forward, so the data of a buffer may follow all tables.
"""

import struct
from collections.abc import Iterator, Mapping

from odt.core.formats.flatbuffer.flatbuffer import FlatBuffer
from odt.core.formats.flatbuffer.flatbuffer_edit import Patch, patched
from odt.core.formats.flatbuffer.schema_tables import DATA_ALIGNMENT
from odt.core.formats.flatbuffer.slots import BufferSlot, ModelSlot
from odt.errors import ModelError
from odt.kernels.rows.opdef import Array

WORD = 4  # bytes of an offset, and of the length before the data
MAX_BYTES = 2**31 - 1  # of a flatbuffer, whose offsets have 32 bits with a sign


def with_data_at_end(packed: bytes, data: Mapping[int, Array]) -> Iterator[bytes | memoryview]:
    """Returns the parts of a model file.

    Args:
        packed: the file, in which some buffers have empty data.
        data: number of each such buffer → its bytes.

    Raises:
        ModelError: if the file would be too large for its format.
    """
    size = len(packed)
    patches: list[Patch] = []
    parts: list[bytes | memoryview] = []
    tables = list(
        FlatBuffer("new model", memoryview(packed)).root().tables(ModelSlot.BUFFERS, "buffer")
    )
    for buffer, values in data.items():
        padding = -(size + WORD) % DATA_ALIGNMENT
        place = tables[buffer].place(BufferSlot.DATA, WORD)
        patches.append((place, struct.pack("<I", size + padding - place)))
        parts += [bytes(padding), struct.pack("<I", values.nbytes), values.data]
        size += padding + WORD + values.nbytes
    if size > MAX_BYTES:
        raise ModelError(
            f"new model: must have at most {MAX_BYTES} bytes, which its format can address, but "
            f"needs {size}"
        )
    return iter([*patched(memoryview(packed), patches), *parts])
