"""Malicious sources: pickles that grow, archives with wrong sizes, colliding labels, pipes."""

import io
import os
import pickle
import struct
import sys
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.datafiles import (
    made,
    odt,
    picture_folder,
    plain_picture,
    refused,
    samples,
    sidecar,
    wav,
)
from support.idx import write_mnist
from support.limits import SECONDS

from odt.core.data.sidecar import Sidecar, read_sidecar
from odt.core.storage.atomic_files import UNFINISHED
from odt.datasets.cifar import BATCHES
from odt.datasets.pickles import read_pickle
from odt.datasets.statistics import label_names
from odt.datasets.tree import open_tree
from odt.errors import DataError
from odt.kernels.rows.opdef import TensorSpec

PIPE = "a device or pipe"


def laughing(levels: int) -> bytes:
    """A pickle of a list of ten times the same list of ten times the same list, and so on."""
    data = b"\x80\x02]q\x00"
    for k in range(levels):
        data += b"](" + b"h" + bytes([k]) + (b"h" + bytes([k])) * 9 + b"eq" + bytes([k + 1])
    return data + b"."


def copying(times: int) -> bytes:
    """A pickle that encodes one long text again and again."""
    text = b"X" + struct.pack("<I", 1 << 20) + b"x" * (1 << 20) + b"q\x00"
    latin = b"X\x06\x00\x00\x00latin1q\x01"
    call = b"c_codecs\nencode\nh\x00h\x01\x86R"
    return b"\x80\x02" + text + latin + b"(" + call * times + b"l."


@pytest.mark.parametrize("data", [laughing(3), laughing(30), laughing(200), copying(2000)])
def test_a_pickle_makes_no_more_than_it_holds(data: bytes) -> None:
    begin = time.process_time()
    with pytest.raises(DataError, match="must be a valid pickle, but got: "):
        read_pickle(data, "p")
    assert time.process_time() - begin < SECONDS


def test_a_pickle_of_many_tuples_costs_no_time() -> None:
    """Finding each mark by looking through the stack took hours."""
    data = b"\x80\x02" + b"(" + b"N" * 200_000 + b"(t" * 200_000 + b"t."
    begin = time.process_time()
    assert len(read_pickle(data, "p")) == 400_000
    assert time.process_time() - begin < SECONDS


def cifar(content: object) -> Callable[[Path], tuple[object, ...]]:
    def make(root: Path) -> tuple[object, ...]:
        for name in (*BATCHES, "test_batch"):
            (root / name).write_bytes(pickle.dumps(content, 2))
        return ("cifar10", "--data-dir", root)

    return make


def labels(value: object) -> Callable[[Path], tuple[object, ...]]:
    return cifar({"data": np.zeros((2, 3072), np.uint8), "labels": value})


def archive(kind: str, name: str) -> Callable[[Path], tuple[object, ...]]:
    """A picture under a good name and one under this."""

    def make(root: Path) -> tuple[object, ...]:
        data, path = plain_picture(1), root / f"s.{kind}"
        if kind == "zip":
            with zipfile.ZipFile(path, "w") as packed:
                packed.writestr("a/1.png", data)
                packed.writestr(name, data)
        else:
            with tarfile.open(path, "w") as tar:
                for each in ("a/1.png", name):
                    member = tarfile.TarInfo(each)
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
        return ("--source", path, "--format", "images", "--split", "train=1.0")

    return make


def huge_header(root: Path) -> tuple[object, ...]:
    """A tar whose extended header says that it has 8 GB."""
    member = tarfile.TarInfo("pax")
    member.type, member.size = tarfile.XHDTYPE, 8**11 - 1
    (root / "s.tar").write_bytes(member.tobuf(tarfile.USTAR_FORMAT) + bytes(2048))
    return ("--source", root / "s.tar")


def wav_with(at: int, value: int) -> Callable[[Path], tuple[object, ...]]:
    def make(root: Path) -> tuple[object, ...]:
        data = bytearray(wav(np.zeros(160)))
        data[at : at + 4] = struct.pack("<I", value)
        (root / "a").mkdir()
        (root / "a/1.wav").write_bytes(data)
        return ("--source", root, "--split", "train=1.0", "--rate", 0)

    return make


def function(text: str, name: str = "m:f") -> Callable[[Path], tuple[object, ...]]:
    def make(root: Path) -> tuple[object, ...]:
        (root / "m.py").write_text(text)
        return ("--source", name, "--format", "callable")

    return make


def pipe(*names: str) -> Callable[[Path], tuple[object, ...]]:
    """Files by their options; the first is a pipe."""

    def make(root: Path) -> tuple[object, ...]:
        np.save(root / "x.npy", np.ones((4, 3)))
        picture_folder(root / "pictures")
        os.mkfifo(root / names[0])
        return tuple(root / n if (root / n).exists() else n for n in names[1:])

    return make


def pipe_in_folder(root: Path) -> tuple[object, ...]:
    write_mnist(root)
    (root / "train-images-idx3-ubyte.gz").unlink()
    os.mkfifo(root / "train-images-idx3-ubyte.gz")
    return ("mnist", "--data-dir", root)


def flat_picture(root: Path) -> tuple[object, ...]:
    """117 million pixels out of 200 bytes."""
    (root / "a").mkdir()
    data = bytearray(plain_picture(1))
    data[16:24] = struct.pack(">2I", 7, 16_744_192)
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    (root / "a/1.png").write_bytes(data)
    return ("--source", root, "--split", "train=1.0")


def damaged_h5(root: Path) -> tuple[object, ...]:
    """The bytes of x are not what the file says they are."""
    with h5py.File(root / "x.h5", "w") as f:
        f.create_dataset("x", data=np.ones((8, 4)), chunks=(8, 4), compression="gzip")
        f["y"] = np.arange(8) % 2
        chunk = f["x"].id.get_chunk_info(0)
    data = bytearray((root / "x.h5").read_bytes())
    data[chunk.byte_offset : chunk.byte_offset + chunk.size] = bytes(chunk.size)
    (root / "x.h5").write_bytes(data)
    return ("--source", root / "x.h5")


CASES: dict[str, tuple[Callable[[Path], tuple[object, ...]], str]] = {
    "labels are text": (labels(["a", "b"]), "labels must be class numbers"),
    "labels are None": (labels([None, None]), "labels must be class numbers"),
    "labels are lists": (labels([[1], [2]]), "labels must be class numbers"),
    "labels are huge": (labels([2**70, 1]), "labels must be class numbers"),
    "no labels": (labels([]), "labels must be class numbers"),
    "keys with escapes": (cifar({"\x1b[2J\n" * 99: 1}), r"but has \x1b[2J\n\x1b[2J"),
    "a tar that claims 8 GB": (huge_header, "must be a valid tar archive"),
    "a sound of chunks without end": (wav_with(16, 2**31), "a/1.wav: must be a valid WAV"),
    "a sound of 4 GHz": (wav_with(24, 2**32 - 1), "must have 1 to 768000 samples per second"),
    "a sound of 0 Hz": (wav_with(24, 0), "must have 1 to 768000 samples per second, but has 0"),
    "a function that raises": (
        function("def f():\n    yield 1, 2\n    raise KeyError('\\n')\n"),
        "m:f: must yield samples, but got: KeyError: '\\n' (m.py, line 3)",
    ),
    "a function that ends": (function("def f():\n    exit()\n"), "but got: SystemExit"),
    "no iterable": (function("def f():\n    return 3\n"), "TypeError: 'int' object is not iter"),
    "a module of no Python": (
        function("def f(:\n"),
        "must be a function in a module of the current folder, but",
    ),
    "a module that raises": (function("1 / 0\n"), "ZeroDivisionError: division by zero (m.py"),
    "a module above": (
        function("", "..m:f"),
        "must be a function in a module of the current folder, but",
    ),
    "ragged samples": (function("def f():\n    yield [[1], [1, 2]], 1\n"), "m:f: must yield"),
    "a picture that is all one color": (flat_picture, "a/1.png: must not unpack to more than"),
    "a damaged HDF5 source": (damaged_h5, ": must be readable, but got: "),
    "a pipe as table": (pipe("p.csv", "--source", "p.csv"), PIPE),
    "a pipe as gzipped table": (pipe("p.csv.gz", "--source", "p.csv.gz"), PIPE),
    "a pipe as archive": (pipe("p.zip", "--source", "p.zip"), PIPE),
    "a pipe as array": (pipe("p.npy", "--source", "p.npy"), PIPE),
    "a pipe as targets": (pipe("p.npy", "--source", "x.npy", "--target-source", "p.npy"), PIPE),
    "a pipe as names": (
        pipe("p.json", "--source", "pictures", "--label-map", "p.json"),
        f"p.json: must be a JSON file, but got: {PIPE}",
    ),
    "a pipe as model": (pipe("p.circle", "--source", "pictures", "--like", "p.circle"), PIPE),
    "a pipe among files": (
        pipe_in_folder,
        f"train-images-idx3-ubyte.gz: must be a readable file, but got: {PIPE}",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_harm_is_refused_in_one_line(
    tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, words = CASES[case]
    root = tmp_path / "s"
    root.mkdir()
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "path", [*sys.path, str(root)])
    monkeypatch.delitem(sys.modules, "m", raising=False)
    line = refused(*make(root), "-o", tmp_path / "o")
    assert words in line, line
    assert line.isprintable()
    assert len(line.replace(str(root), "")) < 400


@pytest.mark.parametrize(
    ("kind", "name"), [("zip", "."), ("zip", ".//."), ("tar", "."), ("tar", "./"), ("tar", "")]
)
def test_members_without_a_name_are_left_out(tmp_path: Path, kind: str, name: str) -> None:
    made(*archive(kind, name)(tmp_path), "-o", tmp_path / "o")
    assert len(samples(tmp_path / "o/train.input.bin")) == 1


def test_many_empty_folders_in_a_zip_cost_no_time(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as packed:
        for k in range(10_000):
            packed.writestr(f"empty{k}/", b"")
            packed.writestr(f"full{k}/1.png", b"")
    begin = time.process_time()
    assert len(open_tree(tmp_path / "s.zip").empty) == 10_000
    assert time.process_time() - begin < SECONDS


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1" + "0" * 30, "1" + "0" * 29 + "1"),
        ("9007199254740992", "9007199254740993"),
        ("inf", "-inf"),
        ("18446744073709551616", "0"),
    ],
)
def test_classes_beyond_float64_integers_stay_words(
    tmp_path: Path, first: str, second: str
) -> None:
    lines = [f"{k},{second if k % 2 else first}\n" for k in range(20)]
    (tmp_path / "t.csv").write_text("".join(lines))
    result = made("--source", tmp_path / "t.csv", "--split", "a=1.0", "-o", tmp_path / "o")
    assert f"classes: {', '.join(f'{c} 10' for c in sorted((first, second)))}" in result.stdout


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", ["1e300", "inf", "-nan"])
def test_values_to_predict_must_be_finite_in_float32(tmp_path: Path, value: str) -> None:
    (tmp_path / "t.csv").write_text(f"1,2.5\n2,{value}\n")
    line = refused("--source", tmp_path / "t.csv", "--regression", "-o", tmp_path / "o")
    assert "must be finite in float32" in line


def test_a_pipe_that_looks_like_a_leftover_is_not_waited_for(tmp_path: Path) -> None:
    picture_folder(tmp_path / "s")
    (tmp_path / "o").mkdir()
    os.mkfifo(tmp_path / f"o/{UNFINISHED}pipe")
    made("--source", tmp_path / "s", "-o", tmp_path / "o")


@pytest.mark.parametrize("seconds", ["inf", "nan", "1e12"])
def test_sounds_that_no_memory_holds_are_refused(tmp_path: Path, seconds: str) -> None:
    (tmp_path / "s/a").mkdir(parents=True)
    (tmp_path / "s/a/1.wav").write_bytes(wav(np.zeros(9)))
    given = ("--source", tmp_path / "s", "-o", tmp_path / "o")
    assert "--seconds: must be 0 … 3600" in refused(*given, "--seconds", seconds)
    assert odt("gen-datafile", *given, "--rate", 768_001).exit_code == 2


def test_folders_that_utf_8_cannot_spell_are_classes(tmp_path: Path) -> None:
    picture_folder(tmp_path / "s")
    os.rename(tmp_path / "s/a", os.fsencode(tmp_path / "s") + b"/\xff")
    result = made("--source", tmp_path / "s", "--split", "train=1.0", "-o", tmp_path / "o")
    assert r"classes: b 5, \udcff 5" in result.stdout
    assert sidecar(tmp_path / "o/train.input.bin")["classes"] == ["b", "\udcff"]


def test_a_sidecar_may_name_a_file_that_no_system_has(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(bytes(8))
    recipe = {"files": {"output": "n" * 9999}}
    described = Sidecar((TensorSpec((4,), np.dtype(np.uint8)),), 2, (), "", recipe)
    Path(f"{path}.json").write_bytes(described.to_bytes())
    assert label_names(str(path), read_sidecar(str(path)), 2) == ["0", "1"]
