"""GGUF files: metadata and tensors are read, and other bytes are refused in one line."""

import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.bounded import answers
from support.gguf_files import ARRAY, TEXT, float32, gguf, text
from support.mutations import mutations

from odt.core.formats.gguf.reader import Gguf, parse_gguf, read_gguf
from odt.core.formats.gguf.tensor_types import CODES, TYPES
from odt.core.formats.gguf.writer import encode, encode_with, float_tensor
from odt.errors import ModelError

Q8_0, Q4_K = CODES["Q8_0"], CODES["Q4_K"]
METADATA = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.attention.layer_norm_rms_epsilon": 0.5,
    "tokenizer.ggml.add_bos_token": True,
    "tokenizer.ggml.tokens": ["a", "é", ""],
    "tokenizer.ggml.token_type": [1, -3, 1],
}
MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)
BLOCKS = bytes(range(68))  # two rows of one block
TENSORS = {"m": float32(MATRIX), "q": ((2, 32), Q8_0, BLOCKS)}


def parse(data: bytes) -> Gguf:
    return parse_gguf(memoryview(data), "x.gguf")


def test_metadata_and_tensors_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(gguf(METADATA, TENSORS))
    file = read_gguf(path)
    read = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in file.metadata.items()}
    assert read == METADATA
    assert list(file.tensors) == ["m", "q"]
    m, q = file.tensors.values()
    assert (m.shape, m.kind.name) == ((2, 3), "F32")
    np.testing.assert_array_equal(m.data.view("<f4").reshape(2, 3), MATRIX)
    assert (q.shape, q.kind.name, q.data.tobytes()) == ((2, 32), "Q8_0", BLOCKS)
    np.testing.assert_array_equal(q.rows(), np.frombuffer(BLOCKS, np.uint8).reshape(2, 34))
    assert not q.data.flags.writeable


def test_written_files_have_the_bytes_of_the_specification() -> None:
    file = parse(gguf(METADATA, TENSORS))
    written = b"".join(encode(file.metadata, file.tensors))
    assert written == gguf(METADATA, TENSORS)
    half = float_tensor(MATRIX.astype(np.float16))
    copied = b"".join(encode_with(file.entries, len(file.metadata), {"h": half}))
    assert copied == gguf(METADATA, {"h": ((2, 3), 1, MATRIX.astype("<f2").tobytes())})


def test_alignment_is_that_of_the_metadata() -> None:
    entries = {"general.alignment": 64}
    data = gguf(entries, TENSORS, alignment=64)
    file = parse(data)
    np.testing.assert_array_equal(file.tensors["m"].data.view("<f4"), MATRIX.reshape(-1))
    assert b"".join(encode(file.metadata, file.tensors)) == data


def test_sizes_of_blocks() -> None:
    # From the layouts: K-quants of 256 values, others of 32 values with float16 scales.
    sizes = {"Q4_0": 2 + 16, "Q4_1": 4 + 16, "Q5_0": 2 + 4 + 16, "Q5_1": 4 + 4 + 16, "Q8_0": 2 + 32}
    sizes |= {"Q4_K": 4 + 12 + 128, "Q5_K": 4 + 12 + 32 + 128, "Q6_K": 128 + 64 + 16 + 2}
    for name, nbytes in sizes.items():
        assert TYPES[CODES[name]].nbytes == nbytes
        assert TYPES[CODES[name]].values == (256 if name.endswith("_K") else 32)


def replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        assert old in data
        return data.replace(old, new, 1)

    return change


def tensors(described: dict[str, Any]) -> Callable[[bytes], bytes]:
    return lambda _: gguf({}, described)


def entries(metadata: dict[str, Any]) -> Callable[[bytes], bytes]:
    return lambda _: gguf(metadata, TENSORS)


def first_entry(kind: bytes) -> Callable[[bytes], bytes]:
    """A file of one entry with these bytes as type and value."""
    return lambda _: b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + kind


def tensors_twice(data: bytes) -> bytes:
    described = gguf({}, {"m": float32(MATRIX), "n": float32(MATRIX)})
    return described.replace(text("n"), text("m"))


OVERLAP = struct.pack("<IQ", Q8_0, 32)
WRONG: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "magic": (lambda data: b"GGJT" + data[4:], "must begin with GGUF, but got b'GGJT'"),
    "empty": (lambda _: b"", "must be a GGUF file, but got 0 bytes"),
    "version": (replaced(b"GGUF\3", b"GGUF\2"), "the version must be 3, but got 2"),
    "big-endian": (replaced(b"GGUF\3\0\0\0", b"GGUF\0\0\0\3"), "got a big-endian file"),
    "header": (lambda data: data[:20], "header: the file must go on"),
    "cut": (lambda data: data[:-30], "tensor q: the file must go on for 2 items of 34 bytes"),
    "tensors": (replaced(struct.pack("<IQ", 3, 2), struct.pack("<IQ", 3, 2**40)), "at most 65536"),
    "text": (replaced(text("llama"), struct.pack("<Q", 2**63) + b"llama"), "must go on for"),
    "utf-8": (replaced("é".encode(), b"\xff\xff"), "texts must be UTF-8"),
    "twice": (tensors_twice, "names must be different, but got m twice"),
    "type": (first_entry(struct.pack("<I", 13)), "metadata entry 0 (k): the type of a value"),
    "array": (first_entry(struct.pack("<IIQ", ARRAY, 4, 2**61)), "must go on for"),
    "nested": (first_entry(struct.pack("<IIQ", ARRAY, ARRAY, 1)), "arrays must be of numbers"),
    "texts": (first_entry(struct.pack("<IIQ", ARRAY, TEXT, 2**40)), "at most 1048576 texts"),
    "axes": (tensors({"m": ((1,) * 5, 0, bytes(4))}), "at most 4 axes, but got 5"),
    "shape": (tensors({"m": ((2**40,) * 4, 0, bytes(4))}), "must go on for"),
    "no values": (tensors({"m": ((0, 3), 0, b"")}), "its axes must not be empty"),
    "code": (tensors({"m": ((1,), 99, bytes(4))}), "tensor 0 (m): its type must be one of GGML"),
    "blocks": (tensors({"m": ((4, 48), Q8_0, bytes(4))}), "multiple of 32 for Q8_0"),
    "K blocks": (tensors({"m": ((4, 128), Q4_K, bytes(4))}), "multiple of 256 for Q4_K"),
    "alignment": (entries({"general.alignment": 24}), "power of 2 from 8 to 65536, but got 24"),
    "alignment text": (entries({"general.alignment": "x"}), "power of 2 from 8 to 65536"),
    "offset": (replaced(OVERLAP, struct.pack("<IQ", Q8_0, 33)), "multiple of 32, but got 33"),
    "overlap": (replaced(OVERLAP, struct.pack("<IQ", Q8_0, 0)), "tensors must not overlap"),
    "name": (entries({"": 1}), "a name must have 1 to 256 bytes, but got 0"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_files_are_refused(name: str, tmp_path: Path) -> None:
    change, message = WRONG[name]
    path = tmp_path / "x.gguf"
    path.write_bytes(change(gguf(METADATA, TENSORS)))
    with pytest.raises(ModelError) as error:
        read_gguf(path)
    assert message in str(error.value)
    assert str(error.value).startswith(f"{path}: ")


def test_damaged_files() -> None:
    """A file or one line, within seconds and a bound of memory."""
    data = gguf(METADATA, TENSORS)
    outcomes = {answers(partial(parse, changed)) for changed in mutations(data, 500, seed=1)}
    assert outcomes == {True, False}
