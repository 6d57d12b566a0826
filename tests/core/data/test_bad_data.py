"""Data files that break a rule: one line says which file, which rule, and what it has."""

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from odt.core.data.columns import open_columns
from odt.core.data.sidecar import Sidecar, sidecar_path
from odt.errors import DataError
from odt.kernels.rows.opdef import Array, TensorSpec

PIXELS = TensorSpec((2, 3), np.dtype(np.float32))


def numbers(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def npy(a: object) -> Callable[[Path], object]:
    """np.save and np.savez add an ending to a name, but not to an open file."""

    def make(path: Path) -> None:
        with open(path, "wb") as f:
            np.save(f, np.asarray(a), allow_pickle=True)

    return make


def npz_of_two(path: Path) -> None:
    with open(path, "wb") as f:
        np.savez(f, x=1, y=2)


def npz_of_objects(path: Path) -> None:
    with open(path, "wb") as f:
        np.savez(f, np.array([{}], object))


def damaged_npz(path: Path) -> None:
    with open(path, "wb") as f:
        np.savez_compressed(f, numbers(50, 6))
    path.write_bytes(path.read_bytes().replace(b"arr_0", b"arr_1", 1))


def h5_without_value(path: Path) -> None:
    with h5py.File(path, "w") as f:
        f["data"] = numbers(2, 6)


def array_that_claims_more(path: Path) -> None:
    npy(numbers(5, 6))(path)
    path.write_bytes(path.read_bytes().replace(b"(5, 6)", b"(9, 6)"))


def strange_sidecar(path: Path) -> None:
    path.write_bytes(bytes(48))
    Path(sidecar_path(str(path))).write_text('{"format": "odt-data", "version": 99}')


def sidecar_of_another_format(path: Path) -> None:
    path.write_bytes(bytes(48))
    text = Sidecar((PIXELS,), 2).to_json()
    Path(sidecar_path(str(path))).write_text(text.replace("odt-data", "other-data"))


def sidecar_of_another_file(path: Path) -> None:
    path.write_bytes(bytes(48))
    Path(sidecar_path(str(path))).write_text(Sidecar((PIXELS,), 3).to_json())


def npy_header(text: str) -> Callable[[Path], object]:
    """An .npy file whose header is this text."""

    def make(path: Path) -> None:
        line = text.encode().ljust(117) + b"\n"
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line + bytes(96))

    return make


def npy_of(shape: str, descr: str = "'<f4'") -> Callable[[Path], object]:
    return npy_header(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}")


def npz_with(change: Callable[[bytearray], object], compression: int) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        with zipfile.ZipFile(path, "w", compression) as archive, archive.open("0.npy", "w") as f:
            np.save(f, numbers(50, 6))
        data = bytearray(path.read_bytes())
        change(data)
        path.write_bytes(data)

    return make


def move_local_header(data: bytearray) -> None:
    at = data.rindex(b"PK\x01\x02") + 42
    data[at : at + 4] = (10_000_000).to_bytes(4, "little")


def damage_lzma(data: bytearray) -> None:
    data[60:80] = bytes(20)


def npz_bomb(path: Path) -> None:
    """The archive's directory says that its 2 KB become 4 GB."""
    npz_with(lambda data: None, zipfile.ZIP_DEFLATED)(path)
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02") + 24
    data[at : at + 4] = (2**32 - 2).to_bytes(4, "little")
    path.write_bytes(data)


def h5(change: Callable[[h5py.File, Path], object]) -> Callable[[Path], object]:
    """An HDF5 file beside another one, other.h5, which holds samples."""

    def make(path: Path) -> None:
        with h5py.File(path.parent / "other.h5", "w") as f:
            f["value/0"] = numbers(4, 6)
        with h5py.File(path, "w") as f:
            change(f, path.parent)

    return make


def linked_set(f: h5py.File, folder: Path) -> None:
    f.create_group("value")["0"] = h5py.ExternalLink(folder / "other.h5", "value/0")


def linked_group(f: h5py.File, folder: Path) -> None:
    f["value"] = h5py.ExternalLink(folder / "other.h5", "value")


def soft_link(f: h5py.File, folder: Path) -> None:
    f["data"] = numbers(4, 6)
    f["value/0"] = h5py.SoftLink("/data")


def dangling_link(f: h5py.File, folder: Path) -> None:
    f["value/0"] = h5py.SoftLink("/nowhere")


def link_loop(f: h5py.File, folder: Path) -> None:
    f["value/0"] = h5py.SoftLink("/value/1")
    f["value/1"] = h5py.SoftLink("/value/0")


def virtual_set(f: h5py.File, folder: Path) -> None:
    layout = h5py.VirtualLayout((4, 6), "f4")
    layout[:] = h5py.VirtualSource(folder / "other.h5", "value/0", (4, 6))
    f.create_group("value").create_virtual_dataset("0", layout)


def external_bytes(f: h5py.File, folder: Path) -> None:
    f.create_group("value").create_dataset(
        "0", (4, 6), "f4", external=[(str(folder / "other.h5"), 0, 96)]
    )


def unwritten_samples(f: h5py.File, folder: Path) -> None:
    f.create_group("value").create_dataset("0", (2**40, 6), "f4", chunks=(1024, 6))


def sidecar_with(**fields: object) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        path.write_bytes(bytes(48))
        content = json.loads(Sidecar((PIXELS,), 2).to_json())
        Path(sidecar_path(str(path))).write_text(json.dumps({**content, **fields}))

    return make


def tensor_of(*shape: int) -> Callable[[Path], object]:
    return sidecar_with(tensors=[{"shape": shape, "dtype": "float32"}])


def sidecar_is_pipe(path: Path) -> None:
    path.write_bytes(bytes(48))
    os.mkfifo(sidecar_path(str(path)))


DIGITS = 10**3999

BAD_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "not found"),
    "folder": (lambda path: path.mkdir(), "must be a readable file, but got: a folder"),
    "empty": (lambda path: path.touch(), "is empty"),
    "short": (lambda path: path.write_bytes(bytes(10)), "24 bytes.*file has 10"),
    "pickle": (npy(np.array([{}], object)), "Python objects"),
    "npz of objects": (npz_of_objects, "Python objects"),
    "damaged npz": (damaged_npz, "npz of number arrays"),
    "zip": (
        lambda p: zipfile.ZipFile(p, "w").writestr("a/b.txt", "x"),
        r"must hold arrays \(.npy\)",
    ),
    "two arrays": (npz_of_two, "but got x, y"),
    "npy header": (lambda path: path.write_bytes(b"\x93NUMPY\x01\x00junk"), "npy array"),
    "claims more": (array_that_claims_more, "npy array"),
    "shape": (npy(numbers(4, 7)), r"6 elements.*\(4, 7\)"),
    "no samples": (npy(np.float32(1)), "must be the samples"),
    "complex": (npy(numbers(4, 6) * 1j), "complex64"),
    "text": (npy(numbers(4, 6).astype("U1")), "must hold numbers, but holds texts"),
    "h5 group": (h5_without_value, 'group "value"'),
    "h5 damaged": (lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(50)), "HDF5"),
    "sidecar": (strange_sidecar, "odt-data 99"),
    "foreign sidecar": (sidecar_of_another_format, "other-data 1"),
    "other sidecar": (sidecar_of_another_file, "3 samples in 72 bytes.*has 48"),
    "pipe": (os.mkfifo, "must be a readable file, but got: a device or pipe"),
    "pipe as sidecar": (sidecar_is_pipe, "must be readable JSON, but got: a device or pipe"),
    "npy of 2^64": (npy_of(f"({2**64},)"), "a shape of 1 axes: 18446744073709551616"),
    "npy of terabytes": (npy_of(f"({2**40}, 6)"), "224 bytes for an array of"),
    "npy of True": (npy_of("(True, 6)"), "a shape of 2 axes: True, 6"),
    "npy of none times all": (npy_of(f"(0, {10**30})"), "a shape of 2 axes"),
    "npy of minuses": (npy_of("-" * 9000 + "1"), "must be an .npy array of numbers"),
    "npy of commas": (npy_of("(4, 6)", "'f4,,'"), "must be an .npy array of numbers"),
    "npy with an escape": (npy_of(r"(4, 6)", r"'\<f4'"), "must be an .npy array of numbers"),
    "npz header beyond its end": (
        npz_with(move_local_header, zipfile.ZIP_STORED),
        "but got: unpack",
    ),
    "npz of broken LZMA": (npz_with(damage_lzma, zipfile.ZIP_LZMA), "number arrays, but got"),
    "npz bomb": (npz_bomb, "a decompression bomb"),
    "h5 with a link to another file": (h5(linked_set), "a link to another place at value/0"),
    "h5 with a group elsewhere": (h5(linked_group), 'must hold a group "value"'),
    "h5 with a soft link": (h5(soft_link), "a link to another place"),
    "h5 with a dangling link": (h5(dangling_link), "a link to another place"),
    "h5 with a loop of links": (h5(link_loop), "one named 0, but got 0, 1|a link to another place"),
    "h5 with a virtual data set": (h5(virtual_set), "the bytes of another file at /value/0"),
    "h5 with external bytes": (h5(external_bytes), "the bytes of another file at /value/0"),
    "h5 of 2^40 unwritten samples": (h5(unwritten_samples), "a decompression bomb"),
    "sidecar of 65 axes": (tensor_of(*[1] * 65), "a shape of 65 axes"),
    "sidecar of long axes": (tensor_of(DIGITS, DIGITS), "a shape of 2 axes"),
    "sidecar with an escape": (sidecar_with(format="a\x1b[2J\nb" * 9999), r"\\x1b\[2J\\nba"),
    "sidecar of a strange recipe": (sidecar_with(files=[1]), "files must be dict"),
    "sidecar of listed boxes": (sidecar_with(boxes=[1]), "boxes must be dict"),
    "sidecar of numbered classes": (sidecar_with(boxes={"classes": 3}), "classes must be a list"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    make, words = BAD_FILES[case]
    path = tmp_path / "x.data"
    make(path)
    with pytest.raises(DataError, match=words) as e:
        open_columns(str(path), [PIXELS], "input")
    message = str(e.value)
    assert message.startswith(str(path))
    assert message.isprintable()
    assert len(message.replace(str(path), "")) < 300


@pytest.mark.parametrize(
    ("header", "size", "words"),
    [
        ((10, 8, 8), 300 << 20, "bytes instead of"),  # the member is longer than its array
        ((300 << 20,), 1200 << 20, "must"),  # another shape than the model's
    ],
)
def test_an_npz_is_compared_before_it_is_unpacked(
    header: tuple[int, ...], size: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small file that would become very large, but is no bomb by its ratio, writes nothing."""
    path, written = tmp_path / "x.npz", []
    start = io.BytesIO()
    fields = {"descr": "<f4", "fortran_order": False, "shape": header}
    np.lib.format.write_array_header_1_0(start, fields)
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("0.npy", "w") as member,
    ):
        member.write(start.getvalue())
        for _ in range(size >> 20):
            member.write(bytes(1 << 20))
    monkeypatch.setattr("shutil.copyfileobj", lambda *a: written.append(a))
    monkeypatch.setattr("odt.core.storage.reading.BOMB_BYTES", 4 << 30)
    with pytest.raises(DataError, match=words):
        open_columns(str(path), [PIXELS], "input")
    assert not written
