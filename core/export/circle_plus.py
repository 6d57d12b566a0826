"""Puts training info into a model file, in place of what is there, or takes it out.

The file's bytes stay: a front (see flatbuffer_edit) holds the new root, its lists of metadata and
buffers, and the info. Taking out what odt put in gives back the file as it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from odt.core.export.flatbuffer_edit import (
    BUFFERS,
    METADATA,
    NewTable,
    OwnBuffer,
    Patch,
    absolute_offsets,
    buffer_table,
    front,
    metadata_table,
    name_own_buffers,
    original,
)
from odt.core.model.flatbuffer import FlatBuffer
from odt.core.model.reader import Model
from odt.core.model.training_info import METADATA_NAME


@dataclass(frozen=True, slots=True)
class Edit:
    """What turns a file into another.

    Attributes:
        front: bytes that come first.
        begin: from where on the file's own bytes follow.
        patches: what changes in these.
    """

    front: bytes
    begin: int
    patches: list[Patch]


def edit_training_info(
    model: Model, info: bytes | None, identifier: bytes, own: Sequence[OwnBuffer] = ()
) -> Edit:
    """How a file gets training info, or loses it.

    Args:
        info: an encoded training info, or None to take out what is there.
        identifier: of the format that the file will have.
        own: new buffers for some tensors, together with an info only.
    """
    begin, root = original(FlatBuffer(model.path, model.data))
    metadata: list[int | NewTable] = []
    found = False
    for table in root.tables(METADATA, "metadata"):
        if table.string(0, "name") == METADATA_NAME:
            found = True
        else:
            metadata.append(table.pos)
    vectors: dict[int, list[int | NewTable]] = {METADATA: metadata}
    patches: list[Patch] = []
    if info is not None:
        buffers: list[int | NewTable] = [t.pos for t in root.tables(BUFFERS, "buffer")]
        buffers = buffers or [buffer_table(b"")]  # buffer 0 means: no data
        metadata.append(metadata_table(METADATA_NAME, len(buffers)))
        vectors[BUFFERS] = buffers = [*buffers, buffer_table(info)]
        patches = name_own_buffers(root, buffers, own)
    if not found and info is None:
        return Edit(b"", begin, absolute_offsets(root, -begin))
    before = front(begin, root, identifier, vectors=vectors, lasting=bool(own))
    return Edit(before, begin, patches + absolute_offsets(root, len(before) - begin))
