"""Memory-maps the arrays of .npy, .npz and HDF5 files."""

import io
import math
import os
import struct
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import IO, TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from odt.core.data.column import SOUND_HDF5, Rows
from odt.core.formats.file_kinds import HDF5, MAX_MEMBERS, NPY, ZIP_LOCAL_BYTES, zip_kind
from odt.core.storage.hdf5 import data_set, data_sets, load_h5py
from odt.core.storage.mapped_files import MappedFile
from odt.core.storage.reading import (
    check_shape,
    guard,
    listed,
    open_input,
    reading,
    without_warnings,
)
from odt.errors import DataError
from odt.kernels.rows.opdef import Array

if TYPE_CHECKING:
    import zipfile

COPY = 1 << 20  # bytes unpacked at a time from an archive
MAX_HEADER = 1 << 16  # bytes of a header; NumPy reads at most 10,000 characters


def npy_array(path: str) -> Rows:
    """Maps the array of an .npy file; raises DataError if it is damaged or holds no numbers."""
    with open_input(path) as f, reading(path, "must be an .npy array of numbers"):
        return _map_npy(f, path)


def _map_npy(f: IO[bytes], path: str) -> Array:
    """Maps the array whose header begins at the position of f."""
    shape, fortran, dtype = _npy_header(f)
    order: Literal["C", "F"] = "F" if fortran else "C"
    # The map keeps the file's bytes alive, even if the file is deleted.
    mapped = MappedFile(f.fileno(), path)
    if f.tell() + math.prod(shape) * dtype.itemsize > len(mapped):
        raise ValueError(f"{len(mapped)} bytes for an array of ({listed(shape, 60)}) {dtype}")
    return np.ndarray(shape, dtype, mapped, f.tell(), order=order)


def _npy_header(f: IO[bytes]) -> tuple[tuple[int, ...], bool, "np.dtype[np.generic]"]:
    """Returns shape, Fortran order and dtype of the header at the position of f."""
    version = np.lib.format.read_magic(f)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read_header is None:
        raise ValueError(f"version {version}")
    with without_warnings():
        shape, fortran, dtype = read_header(f)
    if dtype.hasobject:
        raise ValueError("Python objects")
    check_shape(shape, dtype.itemsize)
    return shape, fortran, dtype


Pick: TypeAlias = Callable[[Collection[str]], Sequence[str]]  # the names of the arrays to read
Check: TypeAlias = Callable[[int, Rows], object]  # of an array, with its number


def npz_arrays(path: str, pick: Pick = list, check: Check | None = None) -> dict[str, Rows]:
    """Returns the arrays of an .npz file that `pick` chooses from all names; all by default.

    Args:
        path: the file.
        pick: chooses the names.
        check: called with the number of an array, and an array of its shape and dtype that takes no
            memory, before it is unpacked; may raise DataError.

    Raises:
        DataError: if the file is damaged, or holds no arrays of numbers.
    """
    import zipfile

    with (
        open_input(path) as file,
        reading(path, "must be an .npz of number arrays"),
        zipfile.ZipFile(file) as archive,
    ):
        files = [m for m in archive.infolist() if not m.is_dir()]
        members = {m.filename.removesuffix(".npy"): m for m in files}
        if files and not any(m.filename.endswith(".npy") for m in files):
            kind = zip_kind([m.filename for m in files[:MAX_MEMBERS]])
            raise DataError(f"{path}: must hold arrays (.npy), but is {kind.instead_of_data(path)}")
        names = pick(members)
        size = os.fstat(file.fileno()).st_size
        guard(path, size, sum(members[name].file_size for name in names))
        return {
            name: _npz_member(path, archive, members[name], partial(check, k) if check else None)
            for k, name in enumerate(names)
        }


def map_arrays(path: str) -> dict[str, Rows]:
    """Returns all arrays of an `.npy`, `.npz` or HDF5 file by name, also those in HDF5 groups.

    Raises:
        DataError: if the file is damaged.
    """
    with open_input(path) as f, reading(path, "must be a readable file"):
        start = f.read(8)
    if start.startswith(NPY):
        return {"0": npy_array(path)}
    if not start.startswith(HDF5):
        return npz_arrays(path)
    h5py = load_h5py(path)
    with reading(path, SOUND_HDF5):
        return {
            name.removeprefix("value/"): item
            for name, item in data_sets(h5py.File(path, "r"), path)
            if item.shape and item.dtype.kind in "biuf"
        }


def _npz_member(
    path: str,
    archive: "zipfile.ZipFile",
    member: "zipfile.ZipInfo",
    check: Callable[[Rows], object] | None,
) -> Rows:
    """Maps an uncompressed member; unpacks a compressed one to an unnamed temporary file."""
    import shutil
    import tempfile
    import zipfile

    with open_input(path) as f:
        if member.compress_type == zipfile.ZIP_STORED:
            f.seek(member.header_offset)
            name, extra = struct.unpack("<26x2H", f.read(ZIP_LOCAL_BYTES))  # their lengths
            f.seek(name + extra, os.SEEK_CUR)
            return _map_npy(f, path)
    with archive.open(member) as packed, tempfile.TemporaryFile() as unpacked:
        start = io.BytesIO(packed.read(MAX_HEADER))
        shape, _, dtype = _npy_header(start)
        end = start.tell() + math.prod(shape) * dtype.itemsize
        if end != member.file_size:  # before a byte of it is written
            raise ValueError(f"{member.file_size} bytes instead of {end} in {member.filename}")
        if check is not None:
            check(np.broadcast_to(np.zeros((), dtype), shape))
        unpacked.write(start.getbuffer())
        shutil.copyfileobj(packed, unpacked, COPY)
        unpacked.seek(0)
        return _map_npy(unpacked, path)


def hdf5_arrays(path: str, pick: Pick) -> list[Rows]:
    """Returns the data sets of the group "value" that `pick` chooses from all names.

    Raises:
        DataError: if the file is damaged, or has no such group or arrays.
    """
    h5py = load_h5py(path)
    with reading(path, SOUND_HDF5):
        file = h5py.File(path, "r")
        is_in_file = isinstance(file.get("value", getlink=True), h5py.HardLink)
        group = file["value"] if is_in_file else None
        if not isinstance(group, h5py.Group):
            raise DataError(f'{path}: must hold a group "value" with data sets "0", "1", ….')
        arrays = [data_set(file, f"value/{name}", path) for name in pick([*group])]
    for array in arrays:
        if not array.shape:
            raise DataError(f"{path}: must hold arrays, but {array.name} is not an array.")
    return arrays
