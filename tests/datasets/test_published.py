"""Named sets in the formats they are published in, written here by the formats' descriptions."""

import gzip
import io
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from support.datafiles import made, refused, samples, sidecar
from support.idx import idx

from odt.datasets.pickles import read_pickle
from odt.errors import DataError
from odt.kernels.rows.opdef import Array

RANDOM = np.random.default_rng(0)
PICTURES = RANDOM.integers(0, 256, (6, 3, 32, 32), np.uint8)  # planes, as CIFAR stores them
LABELS = [3, 0, 9, 1, 1, 7]
BATCHES = ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"]


def python_2_pickle(data: Array, labels: list[int], key: bytes = b"labels") -> bytes:
    """What Python 2 and NumPy 1 wrote: strings without an encoding, a call for the array."""

    def text(s: bytes) -> bytes:
        return b"U" + struct.pack("B", len(s)) + s

    shape = b"".join(b"M" + struct.pack("<H", n) for n in data.shape)
    dtype = b"cnumpy\ndtype\n(" + text(b"u1") + b"K\x00K\x01tR(K\x03" + text(b"|")
    dtype += b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    raw = b"T" + struct.pack("<i", data.size) + data.tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85" + text(b"b") + b"tR"
    )
    array += b"(K\x01" + shape + b"\x86" + dtype + b"\x89" + raw + b"tb"
    numbers = b"](" + b"".join(b"K" + struct.pack("B", n) for n in labels) + b"e"
    return b"\x80\x02}q\x00(" + text(b"data") + array + text(key) + numbers + b"u."


def cifar10(binary: bool) -> dict[str, bytes]:
    """Six training pictures over five files, two test pictures."""
    parts = {name: [k] for k, name in enumerate(BATCHES)} | {"test_batch": [5, 0]}
    parts[BATCHES[4]] = [4, 5]
    if binary:
        return {
            f"cifar-10-batches-bin/{name}.bin": b"".join(
                bytes([LABELS[k]]) + PICTURES[k].tobytes() for k in of
            )
            for name, of in parts.items()
        }
    return {
        f"cifar-10-batches-py/{name}": python_2_pickle(
            PICTURES[of].reshape(len(of), -1), [LABELS[k] for k in of]
        )
        for name, of in parts.items()
    }


def put(root: Path, content: Mapping[str, bytes], kind: str) -> Path:
    """As a folder, a zip or a compressed tar."""
    path = root / f"set.{kind}"
    if kind == "folder":
        for name, data in content.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
    elif kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in content.items():
                archive.writestr(name, data)
    else:
        with tarfile.open(path, "w:gz" if kind == "tar.gz" else "w:xz") as tar:
            for name, data in content.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return path


@pytest.mark.parametrize("kind", ["folder", "zip", "tar.gz", "tar.xz"])
@pytest.mark.parametrize("binary", [True, False])
def test_cifar_10_is_read_from_either_form(tmp_path: Path, kind: str, binary: bool) -> None:
    path = put(tmp_path, cifar10(binary), kind)
    made("cifar10", "--data-dir", path, "-o", tmp_path / "o", "--dtype", "uint8")
    expected = PICTURES.transpose(0, 2, 3, 1)
    assert np.array_equal(samples(tmp_path / "o/train.input.bin"), expected)
    assert np.array_equal(samples(tmp_path / "o/test.input.bin"), expected[[5, 0]])
    labels = samples(tmp_path / "o/train.output.bin").argmax(axis=1)
    assert labels.tolist() == LABELS
    assert sidecar(tmp_path / "o/train.input.bin")["classes"][3] == "cat"


@pytest.mark.parametrize(("variant", "labels"), [("fine", [30, 99]), ("coarse", [4, 19])])
@pytest.mark.parametrize("binary", [True, False])
def test_cifar_100_has_two_kinds_of_labels(
    tmp_path: Path, variant: str, labels: list[int], binary: bool
) -> None:
    content = {
        "fine_label_names.txt": "\n".join(f"fine{k}" for k in range(100)).encode(),
        "coarse_label_names.txt": "\n".join(f"coarse{k}" for k in range(20)).encode(),
    }
    for part in ("train", "test"):
        rows = [(4, 30, PICTURES[0]), (19, 99, PICTURES[1])]
        if binary:
            data = b"".join(bytes([coarse, fine]) + p.tobytes() for coarse, fine, p in rows)
            content[f"{part}.bin"] = data
        else:
            key = f"{variant}_labels".encode()
            content[part] = python_2_pickle(PICTURES[:2].reshape(2, -1), labels, key)
    path = put(tmp_path, content, "folder")
    made("cifar100", "--variant", variant, "--data-dir", path, "-o", tmp_path / "o",
         "--labels", "sparse")  # fmt: skip
    assert samples(tmp_path / "o/train.output.bin").tolist() == labels
    assert sidecar(tmp_path / "o/train.input.bin")["classes"][4] == f"{variant}4"


def test_emnist_is_turned_upright_and_its_letters_begin_with_1(tmp_path: Path) -> None:
    images = RANDOM.integers(0, 256, (3, 28, 28), np.uint8)
    for part in ("train", "test"):
        begin = tmp_path / f"emnist-letters-{part}"
        Path(f"{begin}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        Path(f"{begin}-labels-idx1-ubyte.gz").write_bytes(
            gzip.compress(idx(np.array([1, 26, 2], np.uint8)))
        )
    made("emnist", "--variant", "letters", "--data-dir", tmp_path, "-o", tmp_path / "o",
         "--labels", "sparse", "--dtype", "uint8")  # fmt: skip
    x = samples(tmp_path / "o/train.input.bin")
    assert np.array_equal(x[..., 0], images.transpose(0, 2, 1))
    assert samples(tmp_path / "o/train.output.bin").tolist() == [0, 25, 1]
    assert sidecar(tmp_path / "o/train.input.bin")["classes"][25] == "Z"


def test_an_archive_in_the_folder_is_found(tmp_path: Path) -> None:
    put(tmp_path, cifar10(True), "tar.gz").rename(tmp_path / "cifar-10-binary.tar.gz")
    made("cifar10", "--data-dir", tmp_path, "-o", tmp_path / "o")


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_pickles_of_today_are_read_too(protocol: int) -> None:
    content = {b"data": PICTURES.reshape(6, -1), "labels": LABELS, "n": (1, None, True, -70000)}
    got = read_pickle(pickle.dumps(content, protocol), "x")
    assert np.array_equal(got[b"data"], PICTURES.reshape(6, -1))
    assert got["labels"] == LABELS
    assert got["n"] == [1, None, True, -70000]


class Trap:
    """Unpickling it creates a file: proof of execution."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_a_pickle_is_never_executed(tmp_path: Path, protocol: int) -> None:
    trap = tmp_path / "executed"
    data = pickle.dumps({"data": Trap(trap)}, protocol)
    with pytest.raises(DataError, match=r"x: .*pickle"):
        read_pickle(data, "x")
    assert not trap.exists()
    pickle.loads(data)  # the trap works
    assert trap.exists()


@pytest.mark.filterwarnings("ignore:invalid escape sequence")
def test_damaged_pickles_are_refused() -> None:
    sound = python_2_pickle(PICTURES.reshape(6, -1), LABELS)
    random = np.random.default_rng(1)
    for k in range(300):
        data = bytearray(sound[: random.integers(len(sound))] if k % 3 == 0 else sound)
        for at in random.integers(0, min(len(data), 250), 3) if data else []:
            data[at] = random.integers(256)
        try:
            read_pickle(bytes(data), "x")
        except DataError as e:
            assert str(e).startswith("x: ")  # noqa: PT017  # either outcome is right


def test_an_unknown_variant_is_refused(tmp_path: Path) -> None:
    line = refused("emnist", "--variant", "big", "--data-dir", tmp_path)
    assert "emnist has balanced, byclass" in line
