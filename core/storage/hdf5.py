"""Reads HDF5 data sets whose bytes are in the file itself.

A file can refer to other files: by external and soft links, virtual data sets and external storage.
Such data sets are refused, because the user gave only this file.
"""

import math
import struct
from collections.abc import Iterator
from typing import Any

from odt.core.storage.reading import guard, printable
from odt.errors import DataError, OdtError

# A global heap: signature, version, size; objects: index, references, size, bytes padded to 8.
HEAP = b"GCOL"
HEAP_FRONT = 16  # bytes of the headers of the heap and of an object


def load_h5py(where: str, error: type[OdtError] = DataError) -> Any:
    """Imports h5py.

    Args:
        where: name of the HDF5 file in messages.
        error: exception class of the message.

    Raises:
        OdtError: an exception of the given class, if h5py is not installed.
    """
    try:
        import h5py
    except ImportError as e:
        raise error(
            f"{where}: HDF5 files need h5py, which is not installed. "
            "Install it: pip install 'odt[hdf5]'."
        ) from e
    return h5py


def data_set(root: Any, name: str, where: str, error: type[OdtError] = DataError) -> Any:
    """Finds a data set by name, such as value/0.

    Args:
        root: an open file.
        name: name of the data set.
        where: the file's name in messages.
        error: exception class for a decompression bomb.

    Raises:
        KeyError: if nothing has this name.
        ValueError: if the name does not belong to a data set in this file.
        OdtError: an exception of the given class, for a decompression bomb.
    """
    h5py = load_h5py(where, error)
    item = root
    for part in name.split("/"):
        link = item.get(part, getlink=True) if isinstance(item, h5py.Group) else None
        if link is None:
            raise KeyError(printable(name))
        if not isinstance(link, h5py.HardLink):
            raise ValueError(f"a link to another place at {printable(name)}")
        item = item[part]
    if not isinstance(item, h5py.Dataset):
        raise ValueError(f"no data set at {printable(name)}")
    check_storage(item, where, error)
    return item


def text_of(item: Any, data: bytes, where: str) -> bytes:
    """Reads the string of a scalar data set.

    Strings of variable length are read without the HDF5 library, which may hang or crash on a
    damaged heap.

    Args:
        item: the data set.
        data: all bytes of the file.
        where: the file's name in messages.

    Raises:
        ValueError: if the data set holds no string, or is damaged.
        struct.error: if the data set is damaged.
    """
    string_type = load_h5py(where).check_string_dtype(item.dtype)
    if item.shape or string_type is None:
        raise ValueError(f"no text at {printable(item.name)}")
    if string_type.length is not None:
        return bytes(item[()])
    # The data set holds a reference: length of the string, address of the heap, number of the
    # object. One without a place in the file has none: reading beyond the end raises an error.
    offset = item.id.get_offset() or len(data)
    length, heap, number = struct.unpack_from("<IQI", data, offset)
    signature, size = struct.unpack_from("<4s4xQ", data, heap)
    at, end = heap + HEAP_FRONT, heap + size
    while signature == HEAP and at < end <= len(data):
        index, nbytes = struct.unpack_from("<H6xQ", data, at)
        if index == number and length <= nbytes:
            return data[at + HEAP_FRONT : at + HEAP_FRONT + length]
        if not index or nbytes > size:
            break
        at += HEAP_FRONT + nbytes + -nbytes % 8
    raise ValueError(f"a damaged heap at {heap}")


def data_sets(root: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Yields all data sets of a file with their names, also those in groups; follows no links.

    Raises:
        ValueError: if a data set is in another file.
        DataError: for a decompression bomb.
    """
    h5py = load_h5py(where)
    items: list[tuple[str, Any]] = []
    root.visititems(lambda name, item: items.append((name, item)))
    for name, item in items:
        if isinstance(item, h5py.Dataset):
            check_storage(item, where)
            yield name, item


def check_storage(item: Any, where: str, error: type[OdtError] = DataError) -> None:
    """Checks that the bytes of a data set are in its file, and are no decompression bomb.

    Args:
        item: the data set.
        where: the file's name in messages.
        error: exception class for a decompression bomb.

    Raises:
        ValueError: if the bytes are in another file.
        OdtError: an exception of the given class, for a decompression bomb.
    """
    if item.is_virtual or item.external:
        raise ValueError(f"the bytes of another file at {printable(item.name)}")
    elements = max(math.prod(item.shape or ()), math.prod(item.chunks or ()))
    guard(where, item.id.get_storage_size(), elements * item.dtype.itemsize, error)
