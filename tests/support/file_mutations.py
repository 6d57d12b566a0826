"""Damages data files and checkpoints in their structure: headers, sizes, names, JSON.

Each kind of file is damaged in its own way and gets correct checksums, so that readers accept
those; mutations.py damages bytes anywhere.
"""

import io
import json
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from support.mutations import mutations

Random = np.random.Generator
Damage = Callable[[bytes, Random], bytes]

WORDS = (0, 1, 2, 3, 0x7F, 0xFF, 0x100, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
TEXTS = ("", ".", "..", "/", "\0", "\x1b[2J\n", "é", "\ud800", "nan", "-inf", "1e400", "x" * 9999)
NUMBERS = (0, -1, 1, 2, 3.5, 255, 2**31, 2**32 + 1, 2**53, 2**63, 2**64, 10**30, 10**3999, 1e300)
VALUES: tuple[Any, ...] = (
    None, True, False, float("nan"), [], {}, [[]], [1, [2]], {"a": []}, *TEXTS, *NUMBERS,
)  # fmt: skip
NPY = (
    "(", ")", "[", "{", "'", ",", "#", "-", "0", "1", "L", "True", "None", "2**9", "1e9", " is ",
    "99999999999", "'|O'", "'<U9'", "'>f8'", "'V0'", "'<i8'", "[('a','<f4')]", "\\x", "\n",
)  # fmt: skip
PICKLE = (
    b"N", b"(", b"t", b"l", b"]", b"}", b"a", b"e", b"u", b"s", b"0", b"2", b"R", b"b", b".",
    b"h\x00", b"q\x00", b"K\x01", b"\x85", b"\x94", b"\x8c\x01a", b"\x8a\x09" + b"\xff" * 9,
    b"X\xff\xff\xff\x7f", b"T\xff\xff\xff\x7f", b"I99999999999\n", b"cos\nsystem\n",
)  # fmt: skip
TAR_FIELDS = ((0, 100), (124, 136), (156, 157), (257, 265), (345, 500))
TAR_KINDS = (b"0", b"1", b"2", b"5", b"x", b"g", b"L", b"K", b"S", b"\0")
TAR_VALUES = (b"\xff" * 12, b"\x80" + b"\xff" * 11, b"77777777777", b"\0", b"./", b"..", b"\x1b")
CELLS = (*TEXTS, *map(repr, NUMBERS[:-2]), '"', "a,b")


def pick(choices: Any, rng: Random) -> Any:
    return choices[int(rng.integers(len(choices)))]


def any_bytes(data: bytes, rng: Random) -> bytes:
    """Changes bytes anywhere."""
    return next(mutations(data, 1, int(rng.integers(2**31)))) if len(data) > 8 else data[:-1]


def fields(size: int) -> Damage:
    """Puts extreme numbers into the first bytes, where the header is."""

    def damage(data: bytes, rng: Random) -> bytes:
        changed = bytearray(data)
        for _ in range(int(rng.integers(1, 3))):
            width = pick((1, 2, 4), rng)
            at = int(rng.integers(min(size, len(data))))
            order = pick(("little", "big"), rng)
            changed[at : at + width] = (pick(WORDS, rng) % 256**width).to_bytes(width, order)
        return bytes(changed)

    return damage


def json_tree(value: Any, rng: Random) -> Any:
    """Returns JSON with one value replaced, removed, duplicated or moved."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.1:
        return pick(VALUES, rng)
    key = pick(list(value) if isinstance(value, dict) else range(len(value)), rng)
    changed = value.copy()
    if rng.random() < 0.1:
        del changed[key]
    elif rng.random() < 0.1 and isinstance(changed, dict):
        changed[pick(TEXTS, rng)] = changed.pop(key)
    elif rng.random() < 0.1 and isinstance(changed, list):
        changed = changed * pick((2, 100), rng)
    else:
        changed[key] = json_tree(changed[key], rng)
    return changed


def json_text(data: bytes, rng: Random) -> bytes:
    return json.dumps(json_tree(json.loads(data), rng)).encode()


def same_types(data: bytes, rng: Random) -> bytes:
    """Replaces values of JSON by values of the same type, also by others of the same file."""
    root = json.loads(data)
    for _ in range(int(rng.integers(1, 3))):
        leaves = list(_leaves(root))
        parent, key = pick(leaves, rng)
        kind = type(parent[key])
        known = {
            bool: (True, False),
            int: (0, 1, 2, 3, 5, 6, 7, 100, 10**6, 2**31, 2**62, 2**63 - 1),
            float: (0.0, -1.0, 1e-30, 0.5, 1.0, 2.0, 1e30, 1e300),
            str: TEXTS,
        }.get(kind, (None,))
        own = [p[k] for p, k in leaves if type(p[k]) is kind]
        parent[key] = pick(known, rng) if rng.random() < 0.7 else pick(own, rng)
    return json.dumps(root).encode()


def _leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the container and the key of each value that is no container."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        if isinstance(value[key], dict | list):
            yield from _leaves(value[key])
        else:
            yield value, key


def own_checkpoint(data: bytes, rng: Random, text_damage: Damage = json_text) -> bytes:
    """Damages the header's JSON, and corrects the checksum."""
    magic, version, length = struct.unpack_from("<8sII", data)
    text = text_damage(data[16 : 16 + length], rng)
    text += b" " * (-(16 + len(text)) % 64)
    body = struct.pack("<8sII", magic, version, len(text)) + text + data[16 + length : -4]
    return body + struct.pack("<I", zlib.crc32(body))


def edited_checkpoint(data: bytes, rng: Random) -> bytes:
    """Replaces values of the header by values of the same type, or bytes of the arrays."""
    if rng.random() < 0.8:
        return own_checkpoint(data, rng, same_types)
    (length,) = struct.unpack_from("<I", data, 12)
    begin = 16 + length
    arrays = data[begin:-4]
    body = data[:begin] + (any_bytes(arrays, rng) if arrays else pick((b"", bytes(64)), rng))
    return body + struct.pack("<I", zlib.crc32(body))


def npy_header(data: bytes, rng: Random) -> bytes:
    """Replaces pieces of the header's text; its length stays correct."""
    (size,) = struct.unpack_from("<H", data, 8)
    text = data[10 : 10 + size].decode().rstrip()
    for _ in range(int(rng.integers(1, 4))):
        at, cut = int(rng.integers(len(text))), int(rng.integers(0, 4))
        text = text[:at] + pick(NPY, rng) * pick((1, 1, 1, 3000), rng) + text[at + cut :]
    line = text[:60_000].encode("utf-8", "replace").ljust(size - 1) + b"\n"
    return data[:8] + struct.pack("<H", len(line)) + line + data[10 + size :]


def zip_of(inner: Damage) -> Damage:
    """Changes a member's bytes or name and packs it again; or changes the directory's numbers."""

    def damage(data: bytes, rng: Random) -> bytes:
        if rng.random() < 0.4:
            at = data.rindex(b"PK\x01\x02") if rng.random() < 0.7 else data.rindex(b"PK\x05\x06")
            return data[:at] + fields(46)(data[at:], rng)
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
            members = old.infolist()
            chosen = int(rng.integers(len(members)))
            for k, member in enumerate(members):
                content, name = old.read(member), member.filename
                if k == chosen and rng.random() < 0.3:
                    name = (pick(TEXTS, rng) + name[int(rng.integers(len(name))) :])[:60_000]
                elif k == chosen:
                    content = inner(content, rng)
                name = name.encode("utf-8", "replace").decode().replace("\0", "") or "x"
                new.writestr(name, content, pick((0, 8, 12, 14), rng))
        return out.getvalue()

    return damage


def tar_of(inner: Damage) -> Damage:
    """Changes the fields of a member's header and corrects its checksum; or a member's bytes."""

    def damage(data: bytes, rng: Random) -> bytes:
        changed = bytearray(data)
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            members = archive.getmembers()
        member = pick(members, rng)
        if rng.random() < 0.3:
            begin, end = member.offset_data, member.offset_data + member.size
            changed[begin:end] = inner(data[begin:end], rng)[: member.size].ljust(member.size)
            return bytes(changed)
        start, end = pick(TAR_FIELDS, rng)
        at = member.offset
        value = pick(TAR_KINDS if start == 156 else TAR_VALUES, rng)
        changed[at + start : at + end] = value[: end - start].ljust(end - start, b"\0")
        changed[at + 148 : at + 156] = b" " * 8
        changed[at + 148 : at + 156] = b"%06o\0 " % sum(changed[at : at + 512])
        return bytes(changed)

    return damage


def png_chunk(data: bytes, rng: Random) -> bytes:
    """Changes a chunk's bytes, and corrects its checksum."""
    at, chunks = 8, []
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        chunks.append([data[at + 4 : at + 8], data[at + 8 : at + 8 + size]])
        at += size + 12
    chosen = pick(chunks, rng)
    chosen[1] = fields(13)(chosen[1], rng) if chosen[1] else b"\0"
    if rng.random() < 0.2:
        chosen[0] = pick((b"tEXt", b"eXIf", b"PLTE", b"acTL", b"IEND", b"zTXt", b"iCCP"), rng)
    return data[:8] + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


def pickle_operations(data: bytes, rng: Random) -> bytes:
    """Inserts or replaces operations."""
    changed = data
    for _ in range(int(rng.integers(1, 4))):
        near_end = rng.random() < 0.5
        low = max(0, len(changed) - 400) if near_end else 0
        high = len(changed) if near_end else min(400, len(changed))
        at = int(rng.integers(low, high))
        changed = changed[:at] + pick(PICKLE, rng) + changed[at + int(rng.integers(3)) :]
    return changed


def cells(data: bytes, rng: Random) -> bytes:
    """Changes cells of a table."""
    lines = [line.split(",") for line in data.decode().splitlines()]
    for _ in range(int(rng.integers(1, 30))):
        line = pick(lines, rng)
        line[int(rng.integers(len(line)))] = str(pick(CELLS, rng))
    if rng.random() < 0.2:
        pick(lines, rng).append("1")
    return "\n".join(",".join(line) for line in lines).encode("utf-8", "surrogatepass")


def either(*damages: Damage) -> Damage:
    """Combines kinds of damage: each call applies one of them."""
    return lambda data, rng: pick(damages, rng)(data, rng)
