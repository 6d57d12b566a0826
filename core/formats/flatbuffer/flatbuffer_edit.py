"""Edits a model file without changing bytes that can stay.

Offsets in a flatbuffer are relative and point forward. Therefore a new root with new vectors is put
in front of the old bytes, which stay unchanged, including unknown fields. Only absolute offsets (to
bytes after the flatbuffer in files beyond 2 GiB) grow by the size of the front.

A front begins with header, MARK and its size, so that a second edit finds the original file and
replaces the first front.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence

from odt.core.formats.flatbuffer.flatbuffer import FlatBuffer, Table, u32
from odt.core.formats.flatbuffer.slots import (
    BufferSlot,
    ModelSlot,
    OperatorSlot,
    SubGraphSlot,
    TensorSlot,
)
from odt.dataclass import dataclass

MARK = b"odt+"
HEADER = 16  # bytes of a front before its vtable: offset of the root, identifier, MARK, size
OFFSET, VTABLE_ENTRY = 4, 2  # bytes of an offset or a number, and of an entry of a vtable
TABLE_ALIGNMENT = 16  # alignment of new tables, as the schema requires of data in a Buffer
ALIGNMENT = 64  # alignment of a front, so that aligned data stays aligned
MAX_ROOT = 2**15  # bytes of a root table: its size has 16 bits, and fields are added
MAX_FRONT = 2**31  # bytes: offsets beyond that are refused by other readers

Patch = tuple[int, bytes | memoryview]


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table for the front.

    Attributes:
        data: vtable, table and the objects that it points to; begins at a multiple of 16.
        start: offset of the table in data.
    """

    data: bytes
    start: int


@dataclass(frozen=True, slots=True)
class NewBuffer:
    """A new buffer for some tensors.

    Attributes:
        tensors: numbers of subgraph and tensor.
        data: the bytes.
    """

    tensors: tuple[tuple[int, int], ...]
    data: bytes


def metadata_table(name: str, buffer: int) -> NewTable:
    """Makes a Metadata table: name and buffer index."""
    text = name.encode()
    vtable = struct.pack("<4H", 8, 12, 4, 8)  # sizes of both; name and buffer at 4 and 8
    table = struct.pack("<iII", len(vtable), 8, buffer)  # the name is 8 bytes after its offset
    return NewTable(vtable + table + struct.pack("<I", len(text)) + text + b"\0", len(vtable))


def buffer_table(data: bytes) -> NewTable:
    """Makes a Buffer table whose data begins at a multiple of 16; an empty table without data."""
    if not data:
        return NewTable(struct.pack("<HHi", 4, 4, 4), 4)
    vtable = struct.pack("<4H", 6, 8, 4, 0)  # sizes of both; data at 4; padding
    table = struct.pack("<iI", len(vtable), 16)  # the data is 16 bytes after its offset
    return NewTable(vtable + table + struct.pack("<12xI", len(data)) + data, len(vtable))


def add_buffers(
    root: Table, buffers: list[int | NewTable], new: Sequence[NewBuffer]
) -> list[Patch]:
    """Appends new buffers to a list; returns the patches that make tensors refer to them.

    Raises:
        ModelError: if a tensor has no field for the index of a buffer.
    """
    if not new:
        return []
    tables = {
        (s, i): table
        for s, graph in enumerate(root.tables(ModelSlot.SUBGRAPHS, "subgraph"))
        for i, table in enumerate(graph.tables(SubGraphSlot.TENSORS, "tensor", f"{graph.where}, "))
    }
    patches: list[Patch] = []
    for buffer in new:
        for tensor in buffer.tensors:
            place = tables[tensor].place(TensorSlot.BUFFER, 4)
            if not place:
                raise tables[tensor].error(
                    "must have a buffer index to get another buffer, but has none"
                )
            patches.append((place, struct.pack("<I", len(buffers))))
        buffers.append(buffer_table(buffer.data))
    return patches


def patched(data: memoryview, patches: Iterable[Patch], begin: int = 0) -> Iterator[memoryview]:
    """Yields the bytes from offset `begin` on, with patches applied.

    Args:
        data: the original bytes.
        patches: (offset in data, new bytes); where patches overlap, the first is applied.
        begin: offset of the first byte.
    """
    at = begin
    for offset, new in sorted(patches, key=lambda p: p[0]):
        rest = memoryview(new).cast("B")[max(at - offset, 0) :]
        start = max(at, offset)
        yield data[at:start]
        yield rest
        at = start + len(rest)
    yield data[at:]


def original(source: FlatBuffer) -> tuple[int, Table]:
    """Returns the offset of the original file after a front (0 without a front), and its root."""
    data = source.data
    if bytes(data[8:12]) == MARK and len(data) >= HEADER:
        base = u32(data, 12)
        if HEADER <= base <= len(data) - 8 and data[base + 4 : base + 8] == data[4:8]:
            return base, Table(source, base + u32(data, base), "original root")
    return 0, source.root()


def absolute_offsets(root: Table, shift: int) -> list[Patch]:
    """Returns patches for the absolute offsets in a model that moves by `shift` bytes."""
    places = [t.place(BufferSlot.OFFSET, 8) for t in root.tables(ModelSlot.BUFFERS, "buffer")]
    for graph in root.tables(ModelSlot.SUBGRAPHS, "subgraph"):
        operators = graph.tables(SubGraphSlot.OPERATORS, "operator", f"{graph.where}, ")
        places += [t.place(OperatorSlot.LARGE_CUSTOM_OPTIONS_OFFSET, 8) for t in operators]
    data = root.source.data
    offsets = [(at, int(struct.unpack_from("<Q", data, at)[0])) for at in places if at]
    # 0 and 1 stand for no offset.
    return [(at, struct.pack("<Q", n + shift)) for at, n in offsets if n > 1 and shift]


def front(
    base: int,
    root: Table,
    identifier: bytes,
    version: int | None = None,
    vectors: Mapping[int, Sequence[int | NewTable]] | None = None,
    *,
    lasting: bool = False,
) -> bytes:
    """Makes a front: a new root for the file after it.

    Args:
        base: offset of the original file in the root's source.
        root: root of the original file.
        identifier: file identifier of the format.
        version: new version; None for the root's.
        vectors: slot → tables of a new vector: new tables, or offsets of old ones in the source.
        lasting: whether to leave out MARK, so that no later front replaces this one.

    Raises:
        ModelError: if the root's fields lie outside it, or the new tables take 2 GiB.
    """
    vectors = vectors or {}
    _check_size(root)
    fields, nbytes = _fields(root, vectors, version)
    vtable_nbytes = VTABLE_ENTRY * (2 + len(fields))  # its size and the table's come first
    table = HEADER + vtable_nbytes
    table += (root.pos - table) % TABLE_ALIGNMENT  # the fields stay aligned as they were
    out = bytearray(table + nbytes)
    struct.pack_into(f"<{2 + len(fields)}H", out, HEADER, vtable_nbytes, nbytes, *fields)
    out[table : table + root.nbytes] = root.source.data[root.pos : root.pos + root.nbytes]
    struct.pack_into("<i", out, table, table - HEADER)
    if version is not None:
        struct.pack_into("<I", out, table + fields[ModelSlot.VERSION], version)
    links = [
        (table + fields[slot], root.target(slot))
        for slot in range(len(root.fields))
        if slot not in vectors and _is_offset(root, slot)
    ]
    tables: list[tuple[int, NewTable]] = []
    for slot, items in vectors.items():
        for place, item in _add_vector(out, table + fields[slot], items):
            if isinstance(item, NewTable):
                tables.append((place, item))
            else:
                links.append((place, item))
    for place, item in tables:
        out += bytes(-len(out) % TABLE_ALIGNMENT)
        _point(out, place, len(out) + item.start)
        out += item.data
    out += bytes(-len(out) % ALIGNMENT)
    for place, target in links:
        _point(out, place, target + len(out) - base)
    if len(out) > MAX_FRONT:
        raise root.error(f"its new buffers must fit into {MAX_FRONT} bytes, but got {len(out)}")
    mark = bytes(len(MARK)) if lasting else MARK
    struct.pack_into("<I4s4sI", out, 0, table, identifier, mark, len(out))
    return bytes(out)


def _check_size(root: Table) -> None:
    """Raises ModelError if the root's fields lie outside it."""
    ends = [
        f + (OFFSET if slot <= ModelSlot.SIGNATURE_DEFS else 1)
        for slot, f in enumerate(root.fields)
        if f
    ]
    least, limit = max([OFFSET, *ends]), min(MAX_ROOT, root.source.size - root.pos)
    if not least <= root.nbytes <= limit:
        raise root.error(
            f"must have {least} to {limit} bytes for its fields, but got {root.nbytes}"
        )


def _fields(
    root: Table, vectors: Mapping[int, Sequence[int | NewTable]], version: int | None
) -> tuple[list[int], int]:
    """Returns the offsets of the fields in a new root, and its size: new fields come last."""
    slots = max([len(root.fields), 1, *(1 + slot for slot in vectors)])
    fields = [*root.fields, *[0] * (slots - len(root.fields))]
    nbytes = root.nbytes + -root.nbytes % OFFSET
    for slot in (*vectors, *([ModelSlot.VERSION] if version is not None else [])):
        if not fields[slot]:
            fields[slot] = nbytes
            nbytes += OFFSET
    return fields, nbytes


def _add_vector(
    out: bytearray, field: int, items: Sequence[int | NewTable]
) -> list[tuple[int, int | NewTable]]:
    """Adds a vector of offsets to which a field points; returns the place of each offset."""
    _point(out, field, len(out))
    first = len(out) + OFFSET
    out += struct.pack("<I", len(items)) + bytes(OFFSET * len(items))
    return [(first + OFFSET * k, item) for k, item in enumerate(items)]


def _point(out: bytearray, at: int, target: int) -> None:
    struct.pack_into("<I", out, at, target - at)


def _is_offset(root: Table, slot: int) -> bool:
    """Whether a field of the root is an offset.

    A slot that is not in the schema counts as an offset if it can be one: all fields added to Model
    so far were vectors, tables and strings.
    """
    if not root.fields[slot] or slot == ModelSlot.VERSION:
        return False
    if slot <= ModelSlot.SIGNATURE_DEFS:
        return True
    at = root.pos + root.fields[slot]
    others = [f for f in root.fields if f > root.fields[slot]]
    limit = min([*others, root.nbytes]) - root.fields[slot]
    size = root.source.size
    target = at + u32(root.source.data, at) if limit >= 4 and at + 4 <= size else 0
    return at < target <= size - 4 and target % 4 == 0
