"""Files of other programs are named for what they are, with the next step."""

import gzip
import io
import json
import pickle
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from support.paths import MLP_SM

import odt
from odt.cli.main import main

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n"
LICENSE = b"/* Copyright\n" + b" * Licensed under some license, at some length\n" * 40 + b" */\n"


def zipped(*names: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name in names:
            archive.writestr(name, name * 20)
    return data.getvalue()


def tar() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("m.tflite"))
    return data.getvalue()


def number(value: int) -> bytes:
    """A varint of protocol buffers."""
    data = b""
    while value > 127:
        data, value = data + bytes([value & 127 | 128]), value >> 7
    return data + bytes([value])


def message(*fields: tuple[int, int | bytes]) -> bytes:
    """A message of protocol buffers."""
    data = b""
    for field, value in fields:
        if isinstance(value, int):
            data += number(field << 3) + number(value)
        else:
            data += number(field << 3 | 2) + number(len(value)) + value
    return data


def keras_hdf5() -> bytes:
    data = io.BytesIO()
    with h5py.File(data, "w") as file:
        file.attrs["model_config"] = json.dumps({"class_name": "Functional"})
        file["model_weights/dense"] = np.zeros(3)
    return data.getvalue()


def safetensors() -> bytes:
    header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    return struct.pack("<Q", len(header)) + header + bytes(4)


def npy() -> bytes:
    data = io.BytesIO()
    np.save(data, np.zeros(3))
    return data.getvalue()


ONNX = message(
    (1, 8), (2, b"pytorch"), (3, b"2.4"), (7, message((1, b"node" * 3000))), (8, message((2, 17)))
)
GRAPH_DEF = message(*[(1, message((1, b"input"), (2, b"Placeholder"), (5, b"attr")))] * 3)
KERAS, TORCH = "from_keras_model", "tico.convert"
KINDS: Mapping[str, tuple[bytes, str, str]] = {
    "keras": (zipped("metadata.json", "config.json", "model.weights.h5"), "a Keras model", KERAS),
    "keras h5": (keras_hdf5(), "a Keras model in HDF5", KERAS),
    "pt": (zipped("archive/data.pkl", "archive/data/0"), "a PyTorch file", TORCH),
    "pt2": (zipped("m/archive_format", "m/models/model.json"), "a PyTorch program", TORCH),
    "old pth": (pickle.dumps(0x1950A86A20F9469CFC6C, 2), "a PyTorch file", TORCH),
    "pickle": (pickle.dumps([1, 2]), "a Python pickle", "reads no pickles"),
    "pte": (b"\x30\0\0\0ET12eh00" + bytes(64), "an ExecuTorch program", "from which it was made"),
    "ort": (b"\x28\0\0\0ORTM" + bytes(64), "an ONNX Runtime file", "Give the .onnx file"),
    "task": (zipped("palm.tflite", "hand.tflite"), "a zip bundle, .* with palm", "Unpack it, and"),
    "zip": (zipped("a.txt", "b.txt"), "a zip archive with a.txt, b.txt", "Unpack it"),
    "empty.zip": (zipped(), "an empty zip archive", "Give a .tflite, .circle or .onnx file"),
    "gz": (gzip.compress(b"1" * 99), "a gzip archive", "Unpack it"),
    "tar": (tar(), "a tar archive", "Unpack it"),
    "mlmodel": (message((1, 4), (2, b"text"), (500, b"net")), "a Core ML model", "Convert the"),
    "saved_model.pb": (message((1, 1), (2, b"graph")), "a saved_model.pb", "from_saved_model"),
    "frozen": (GRAPH_DEF, "a TensorFlow graph", "from_frozen_graph"),
    "safetensors": (safetensors(), "a safetensors file", "from its framework"),
    "gguf": (b"GGUF\3\0\0\0" + bytes(64), "a GGUF file", "odt convert "),
    "npy": (npy(), "a NumPy file", "give it as samples"),
    "npz": (zipped("x.npy"), "a NumPy file", "give it as samples"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(64), "an image", "give it as samples"),
    "heic": (b"\0\0\0\x18ftypheic" + bytes(64), "an image", "give it as samples"),
    "wav": (b"RIFF\x24\0\0\0WAVEfmt " + bytes(32), "a sound", "give it as samples"),
    "lfs": (LFS, "a pointer of Git LFS", "git lfs pull"),
    "web page": (b"\n<!DOCTYPE html>\n<html>", "a web page", "Download the file itself"),
    "c": (b"unsigned char model[] = {\n  0x1c, 0x00,", "C source", "python3 -c"),
    "c with license": (LICENSE + b"const uint8_t m[] = {\n", "C source", "python3 -c"),
    "text": (b"cat\ndog\nbird\n", "a text file", "Give a .tflite"),
    "checkpoint": (b"odt ckpt" + bytes(64), "a checkpoint", "checkpoint="),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_model_of_another_kind_is_named(tmp_path: Path, name: str) -> None:
    data, kind, step = KINDS[name]
    path = tmp_path / "model.tflite"  # the content counts, not the name
    path.write_bytes(data)
    with pytest.raises(
        odt.ModelError, match=f"must be a .tflite, .circle or .onnx model, but is {kind}"
    ) as e:
        odt.load_model(path)
    assert step in str(e.value)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("end", [31, 300, -1])
def test_truncated_archives_are_named_too(tmp_path: Path, end: int) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(zipped("archive/data.pkl", "archive/data/0")[:end])
    with pytest.raises(odt.ModelError, match=r"but is a (PyTorch file|zip archive)"):
        odt.load_model(path)


def test_folders_of_other_kinds_are_named(tmp_path: Path) -> None:
    for name, files, words in (
        ("saved", ["saved_model.pb"], "a TensorFlow SavedModel. Convert it"),
        ("a.mlpackage", ["Manifest.json", "Data"], "a Core ML package"),
        ("models", ["a.tflite"], r"a folder with a.tflite. Give one file"),
        ("onnx", ["a.onnx", "config.json"], r"a folder with a.onnx. Give one file"),
        ("hub", ["model.safetensors"], "a folder with model.safetensors"),
        ("empty", [], "a folder without metadata"),
    ):
        for file in files:
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / file).write_bytes(b"")
        (tmp_path / name).mkdir(exist_ok=True)
        with pytest.raises(odt.ModelError, match=f"a model must be a file, but got {words}"):
            odt.load_model(tmp_path / name)


@pytest.mark.parametrize("name", ["lfs", "web page", "c", "keras", "pt", "gguf"])
def test_data_of_another_kind_are_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(KINDS[name][0])
    named = pytest.raises(odt.DataError, match=f"but (it )?is {KINDS[name][1]}")
    with odt.Trainer(MLP_SM / "model.circle") as trainer, named:
        trainer.fit(path, np.zeros((1, 10)))


@pytest.mark.parametrize(
    ("data", "kind"), [*(KINDS[n][:2] for n in ("lfs", "pt", "keras h5")), (ONNX, "an ONNX file")]
)
def test_checkpoints_of_another_kind_are_named(tmp_path: Path, data: bytes, kind: str) -> None:
    (tmp_path / "c.odt").write_bytes(data)
    with pytest.raises(odt.ModelError, match=f"checkpoint of odt or onert, but is {kind}"):
        odt.Trainer(MLP_SM / "model.circle", checkpoint=tmp_path / "c.odt").session.build()


@pytest.mark.parametrize("name", ["photos.zip", "table.csv", "x.npz", "x.bin"])
def test_sources_that_stand_for_others_are_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(LFS)
    words = ["gen-datafile", "--source", str(tmp_path / name), "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 1
    assert "must hold samples, but is a pointer of Git LFS. It stands" in result.output


def test_the_command_for_c_source_restores_the_model(tmp_path: Path) -> None:
    data = (MLP_SM / "model.circle").read_bytes()[:4000]
    text = ", ".join(f"0x{byte:02x}" for byte in data)
    path = tmp_path / ("long" * 10) / "m.cc"
    path.parent.mkdir()
    path.write_text(f"const unsigned char m[] = {{\n{text}\n}};\nunsigned int m_len = 4000;\n")
    with pytest.raises(odt.ModelError) as e:
        odt.load_model(path)
    command = str(e.value).partition('python3 -c "')[2].removesuffix('".')
    subprocess.run([sys.executable, "-c", command], cwd=path.parent, check=True)
    assert (path.parent / "model.tflite").read_bytes() == data


@pytest.mark.parametrize("model", [b"1234TFL3", io.BytesIO(b"1234TFL3"), None])
def test_a_model_is_given_by_its_path(model: object) -> None:
    with pytest.raises(odt.OptionError, match=r"must be .*path.*, but got"):
        odt.load_model(model)  # type: ignore[arg-type]
