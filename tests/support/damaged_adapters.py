"""Adapters of a small language model in all forms, and functions that damage and use them."""

import io
import shutil
import struct
from functools import partial
from pathlib import Path

import numpy as np

import odt
from odt.core.export.adapter_file import read_adapters
from odt.core.formats.gguf.reader import parse_gguf
from odt.core.lowering.low_rank import adapt
from odt.models.adapter_summary import adapter_values, describe_adapters
from odt.models.model import file_of, lowered_of
from support.bounded import answers
from support.file_mutations import (
    Damage,
    Random,
    any_bytes,
    either,
    json_text,
    npy_header,
    pick,
    same_types,
    zip_of,
)
from support.gguf_files import gguf, tiny_llama

T, RANK = 8, 2
ARRAYS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
NAMES = ("", ".lora_a", "x.lora_b", "blk.0.attn_q.weight.lora_a", "é" * 40, "\x1b[2J.lora_b")
SHAPES = ((), (0,), (2, 0), (1, 1), (2, 64), (64, 2), (2, 32, 2), (2**40, 2**40))
CODES = (0, 1, 2, 3, 8, 30, 99)  # of types
DATA = json_text, same_types


def gguf_metadata(data: bytes, rng: Random) -> bytes:
    """Changes bytes before the tensors' data."""
    tensors = parse_gguf(memoryview(data), "").tensors.values()
    begin = len(data) - sum(t.data.nbytes for t in tensors)
    return any_bytes(data[:begin], rng) + data[begin:]


def gguf_contents(data: bytes, rng: Random) -> bytes:
    """Changes an entry of the metadata, or a tensor, and writes the file again."""
    file = parse_gguf(memoryview(data), "")
    metadata = dict(file.metadata)
    tensors = {n: (t.shape, 0, t.data.tobytes()) for n, t in file.tensors.items()}
    if rng.random() < 0.5:
        values = (0, 1, 2**32 - 1, -1.0, float("nan"), 1e30, True, "", "lora", "model", [1], ["a"])
        metadata[pick(list(metadata), rng)] = pick(values, rng)
    else:
        name = pick(list(tensors), rng)
        shape, code, values_of = tensors.pop(name)
        change = int(rng.integers(5))
        new = pick(NAMES, rng) if change == 0 else name
        shape = pick(SHAPES, rng) if change == 1 else shape
        code = pick(CODES, rng) if change == 2 else code
        number = pick((np.nan, np.inf, -np.inf, 1e38), rng)
        values_of = struct.pack("<f", number) + values_of[4:] if change == 3 else values_of
        if change < 4:
            tensors[new] = shape, code, values_of
    return gguf(metadata, tensors)


def safetensors_header(data: bytes, rng: Random) -> bytes:
    """Changes the header's JSON, and corrects its length."""
    (length,) = struct.unpack_from("<Q", data)
    text = either(*DATA)(data[8 : 8 + length], rng)
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def npy_contents(data: bytes, rng: Random) -> bytes:
    """Changes the description's JSON, or shape, type or values of a matrix."""
    array = np.load(io.BytesIO(data))
    if array.dtype == np.uint8:
        array = np.frombuffer(either(*DATA)(array.tobytes(), rng), np.uint8)
    else:
        others = array.T, array[1:], array[:0], array[None], array.astype("f8"), array * np.nan
        array = pick(others, rng)
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


# Form → the file that is damaged, how, and what is read then.
FORMS: dict[str, tuple[str, Damage, str]] = {
    "llama.cpp": ("a.gguf", either(gguf_metadata, gguf_contents, any_bytes), "a.gguf"),
    "PEFT": (ARRAYS, either(safetensors_header, safetensors_header, any_bytes), ARRAYS),
    "PEFT, configuration": (CONFIG, either(*DATA, any_bytes), "."),
    "odt": ("a.npz", either(zip_of(either(npy_contents, npy_header)), any_bytes), "a.npz"),
}


def fuzz(form: str, folder: Path, count: int, seed: int) -> None:
    """Damages a file of adapters again and again, and reads it, as all commands do."""
    (folder / "m.gguf").write_bytes(tiny_llama("floats"))
    odt.convert_gguf(folder / "m.gguf", folder / "m.circle", T)
    adapted = odt.lora(folder / "m.circle", RANK, seed=seed)
    name, damage, given = FORMS[form]
    adapted.save_adapters(folder / (ARRAYS if name == CONFIG else name))
    graph = lowered_of(folder / "m.circle").graph
    model = file_of(adapted)

    def read(path: Path) -> None:
        adapt(graph, read_adapters(path, model, lambda: graph))

    uses = [partial(f, folder / given) for f in (read, describe_adapters, adapter_values)]
    assert all(map(answers, uses)), "the sound file must be accepted"
    data, rng, found = (folder / name).read_bytes(), np.random.default_rng(seed), []
    for number in range(count):
        (folder / name).write_bytes(damage(data, rng))
        try:
            found.append([answers(use) for use in uses])
        except BaseException as e:
            kept = folder.parent / f"{number}-{name}"
            shutil.copy(folder / name, kept)
            e.add_note(f"mutation {number} of {form}, seed {seed}, kept as {kept}")
            raise
    assert count < 30 or {False, True} == {reading for reading, *_ in found}
