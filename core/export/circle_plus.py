"""Adds training info to a model file, replaces it, or removes it.

The file's bytes stay: a front (see flatbuffer_edit) holds the new root, its lists of metadata and
buffers, and the info. Removing info that odt added restores the file byte for byte.
"""

from collections.abc import Sequence

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
from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of a file.

    Attributes:
        front: new bytes at the beginning.
        begin: offset of the first of the file's own bytes that follow.
        patches: changes in the file's own bytes.
    """

    front: bytes
    begin: int
    patches: list[Patch]


def edit_training_info(
    model: Model, info: bytes | None, identifier: bytes, own: Sequence[OwnBuffer] = ()
) -> Edit:
    """The edit that sets or removes training info.

    Args:
        model: the model.
        info: encoded training info; None to remove it.
        identifier: file identifier of the new file's format.
        own: new buffers for some tensors, only together with an info.
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
