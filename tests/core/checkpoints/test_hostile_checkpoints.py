"""Checkpoints made to harm are refused in one short line; what is printed of them stays short."""

import io
import json
import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.paths import MLP_SM

from odt.cli.main import main
from odt.core.checkpoints.checkpoint import CRC, FRONT, Checkpoint, Entry, encode, header
from odt.core.checkpoints.files import decode_any
from odt.core.checkpoints.progress import Progress
from odt.errors import MAX_MESSAGE, ModelError

MODEL = MLP_SM / "model.circle"
ESCAPE = "\x1b[2J\n"
ENTRY = Entry("w", "weight", (2,), "float32")
SMALL = Checkpoint("sgd", {"learning_rate": 0.1}, Progress(), (ENTRY,), (np.ones(2, np.float32),))
SMALL_FILE = b"".join(encode(SMALL))


def odt(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def refused(*arguments: object) -> str:
    """The one line that a command ends with."""
    result = odt(*arguments)
    assert result.exit_code == 1, result.output
    line = result.stderr.removesuffix("\n")
    assert line.isprintable(), line
    assert len(line) <= MAX_MESSAGE + len("Error: ")
    return line


def own(change: Callable[[dict[str, Any]], object], data: bytes = SMALL_FILE) -> bytes:
    """odt's own checkpoint with another header and the checksum that belongs to it."""
    magic, version, length = FRONT.unpack_from(data)
    head = json.loads(data[FRONT.size : FRONT.size + length])
    change(head)
    text = json.dumps(head).encode()
    text += b" " * (-(FRONT.size + len(text)) % 64)
    body = FRONT.pack(magic, version, len(text)) + text + data[FRONT.size + length : -CRC.size]
    return body + CRC.pack(zlib.crc32(body))


def shape(*sizes: int) -> bytes:
    return own(lambda head: head["entries"][0].update(shape=sizes))


def progress(**values: object) -> bytes:
    return own(lambda head: head["progress"].update(values))


def npz(name: str, content: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    """An .npz checkpoint with a member of these bytes."""
    out, sound = io.BytesIO(), io.BytesIO()
    np.save(sound, np.array(header(SMALL)))
    with zipfile.ZipFile(out, "w", compression) as archive:
        if name != "header.npy":
            archive.writestr("header.npy", sound.getvalue())
        archive.writestr(name, content)
    return out.getvalue()


def npz_bomb() -> bytes:
    data = npz("weight/w.npy", bytes(1 << 16), zipfile.ZIP_DEFLATED)
    at = data.rindex(b"PK\x01\x02") + 24
    return data[:at] + (2**32 - 2).to_bytes(4, "little") + data[at + 4 :]


def h5(fill: Callable[[h5py.File], object]) -> bytes:
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        file["header"] = header(SMALL)
        fill(file)
    return out.getvalue()


def linked(file: h5py.File) -> None:
    file["weight/w"] = h5py.ExternalLink("/tmp/other.h5", "w")


def external(file: h5py.File) -> None:
    file.create_group("weight").create_dataset("w", (2,), "f4", external=[("/etc/passwd", 0, 8)])


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((2,), "f4")
    layout[:] = h5py.VirtualSource("/tmp/other.h5", "w", (2,))
    file.create_group("weight").create_virtual_dataset("w", layout)


def unwritten(file: h5py.File) -> None:
    file.create_group("weight").create_dataset("w", (2**40,), "f4", chunks=(1024,))


def damaged_heap() -> bytes:
    """HDF5 2.0 looks for its header without end when an object of the heap has another size."""
    data = bytearray(h5(lambda file: None))
    data[data.index(b"GCOL") + 24] ^= 8
    return bytes(data)


def header_of_lists(file: h5py.File) -> None:
    del file["header"]
    file.create_dataset("header", (), h5py.vlen_dtype(np.int64))


NPY = b"\x93NUMPY\x01\x00\x76\x00"
CASES: dict[str, tuple[bytes, str]] = {
    "a shape of none times all": (shape(0, 10**30), "a number from 0 to 2^63 - 1"),
    "a shape of 100 axes": (shape(*[1] * 100), "a shape of 100 axes"),
    "a shape of 2^124": (shape(2**62, 2**62), "a shape of 2 axes: 4611"),
    "a shape of 8,000 digits": (shape(10**3999, 10**3999), "1000"),
    "a step of 4,200 digits": (progress(step=10**4199), "a number from 0 to 2^63 - 1"),
    "a dtype with escapes": (own(lambda h: h["entries"][0].update(dtype=ESCAPE)), r"\x1b[2J\n"),
    "a key with escapes": (own(lambda h: h["entries"].append({ESCAPE: 1})), "KeyError: 'tensor'"),
    "an npz bomb": (npz_bomb(), "a decompression bomb"),
    "an npz header of no Python": (
        npz("header.npy", NPY + b"{'descr': '<f4', 'shape': (3L,), (".ljust(118)),
        "must be a checkpoint as odt writes it, but got: ",
    ),
    "an npz of a shape beyond all": (
        npz("weight/w.npy", NPY + b"{'descr':'<f4','fortran_order':False,'shape':(2" + b"0" * 60),
        "must be a checkpoint as odt writes it, but got: ",
    ),
    "an h5 with a link": (h5(linked), "a link to another place at weight/w"),
    "an h5 with external bytes": (h5(external), "the bytes of another file at /weight/w"),
    "an h5 with a virtual set": (h5(virtual), "the bytes of another file at /weight/w"),
    "an h5 with a damaged heap": (damaged_heap(), "must be a checkpoint as odt writes it"),
    "an h5 whose header is no text": (h5(header_of_lists), "no text at /header"),
    "a name that UTF-8 cannot spell": (
        own(lambda h: h["entries"][0].update(tensor="\ud800")),
        "surrogates not allowed",
    ),
    "an h5 of 2^40 unwritten values": (h5(unwritten), "a decompression bomb"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("error")
def test_harm_is_refused_in_one_line(case: str, tmp_path: Path) -> None:
    data, words = CASES[case]
    with pytest.raises(ModelError) as e:
        decode_any(data, "c")
    assert words in str(e.value)
    (tmp_path / "c").write_bytes(data)
    assert words in refused("checkpoint", "show", tmp_path / "c")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "c.odt")
    data = ("--load-input", MLP_SM / "input.bin", "--load-expected", MLP_SM / "expected.bin")
    for command in (
        ("checkpoint", "show", tmp_path / "c.odt"),
        ("checkpoint", "convert", tmp_path / "c.odt", tmp_path / "d.odt"),
        ("train", MODEL, *data, "--checkpoint", tmp_path / "c.odt"),
    ):
        assert "must be a checkpoint, but got: a device or pipe" in refused(*command)


def test_texts_from_a_file_are_printable_and_short(tmp_path: Path) -> None:
    name = ESCAPE + "x" * 10**6
    entries = [Entry(name + str(k), "weight", (1,), "float32") for k in range(5)]
    found = Checkpoint(
        name, {"learning_rate": 0.1, name: 1}, Progress(kernels=name), tuple(entries), (),
        {name: name},
    )  # fmt: skip
    (tmp_path / "c.odt").write_bytes(b"".join(encode(found)))
    result = odt("checkpoint", "show", tmp_path / "c.odt")
    assert result.exit_code == 0
    assert result.stdout.replace("\n", "").isprintable()
    assert len(result.stdout) < 50_000


def test_many_differences_are_a_few_lines(tmp_path: Path) -> None:
    entries = [Entry(f"{ESCAPE}{k}", "weight", (1,), "float32") for k in range(200_000)]
    weights = tuple(np.zeros((len(entries), 1), np.float32))
    found = Checkpoint("sgd", {"learning_rate": 0.1}, Progress(), tuple(entries), weights)
    (tmp_path / "c.odt").write_bytes(b"".join(encode(found)))
    convert = (
        "checkpoint", "convert", tmp_path / "c.odt", tmp_path / "c.ckpt", "--model", MODEL,
    )  # fmt: skip
    line = refused(*convert)
    assert "but got 200004 differences: " in line
    assert "odt -v lists the first 20." in line
    result = odt("-v", *convert)
    assert len(result.stderr.splitlines()) == 1 + 1 + 20


def test_steps_that_onert_cannot_count_are_refused(tmp_path: Path) -> None:
    files = ("--load-input", MLP_SM / "input.bin", "--load-expected", MLP_SM / "expected.bin")
    once = odt("train", MODEL, *files, "--epochs", 1, "--export-checkpoint", tmp_path / "c.odt")
    assert once.exit_code == 0, once.output
    data = (tmp_path / "c.odt").read_bytes()
    changed = own(lambda head: head["progress"].update(step=2**32), data)
    (tmp_path / "c.odt").write_bytes(changed)
    line = refused(
        "checkpoint", "convert", tmp_path / "c.odt", tmp_path / "c.ckpt", "--model", MODEL
    )
    assert "onert's format holds at most 4294967295 steps, but got 4294967296" in line
