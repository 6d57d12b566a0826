"""Adds metadata entries to a model file, replaces them, or removes them.

The file's bytes stay: a front (see flatbuffer_edit) holds the new root, its lists of metadata and
buffers, and the entries. Removing all entries that odt added restores the file byte for byte.
"""

from collections.abc import Mapping, Sequence

from odt.core.formats.flatbuffer.flatbuffer import FlatBuffer
from odt.core.formats.flatbuffer.flatbuffer_edit import (
    NewBuffer,
    NewTable,
    Patch,
    absolute_offsets,
    add_buffers,
    buffer_table,
    front,
    metadata_table,
    original,
)
from odt.core.formats.flatbuffer.slots import MetadataSlot, ModelSlot
from odt.core.model.model import Model
from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of a file.

    Attributes:
        front: new bytes at the beginning.
        begin: offset of the first byte of the file that follows the front.
        patches: changes in the file's bytes.
    """

    front: bytes
    begin: int
    patches: list[Patch]


def edit_metadata(
    model: Model,
    entries: Mapping[str, bytes | None],
    identifier: bytes,
    new_buffers: Sequence[NewBuffer] = (),
    version: int | None = None,
    absent: frozenset[int] = frozenset(),
) -> Edit:
    """Returns the edit that sets or removes metadata entries; others stay.

    Args:
        model: the model.
        entries: name → bytes; None to remove the entry.
        identifier: file identifier of the new file's format.
        new_buffers: new buffers for some tensors, only together with an entry.
        version: new version of the file; None for the old one.
        absent: buffers that lose their data field.

    Raises:
        ModelError: if a tensor has no field for the index of a new buffer, or the file's root is
            damaged or would be too large.
    """
    begin, root = original(FlatBuffer(model.path, model.data))
    buffers: list[int | NewTable] = [
        buffer_table(b"") if k in absent else t.pos
        for k, t in enumerate(root.tables(ModelSlot.BUFFERS, "buffer"))
    ]
    # Entries of an earlier front: their buffers follow those of the original file.
    earlier = {n: bytes(model.buffer(i)) for n, i in model.metadata.items() if i >= len(buffers)}
    values = {name: data for name, data in {**earlier, **entries}.items() if data is not None}
    metadata: list[int | NewTable] = []
    is_present = False
    for table in root.tables(ModelSlot.METADATA, "metadata"):
        if table.string(MetadataSlot.NAME, "name") in {*entries, *earlier}:
            is_present = True
        else:
            metadata.append(table.pos)
    if not is_present and not values:
        return Edit(b"", begin, absolute_offsets(root, -begin))
    vectors: dict[int, list[int | NewTable]] = {ModelSlot.METADATA: metadata}
    patches: list[Patch] = []
    if values or new_buffers or absent:
        buffers = buffers or [buffer_table(b"")]  # buffer 0 means that there is no data
        for name, data in values.items():
            metadata.append(metadata_table(name, len(buffers)))
            buffers.append(buffer_table(data))
        vectors[ModelSlot.BUFFERS] = buffers
        patches = add_buffers(root, buffers, new_buffers)
    before = front(begin, root, identifier, version, vectors, lasting=bool(new_buffers))
    return Edit(before, begin, patches + absolute_offsets(root, len(before) - begin))
