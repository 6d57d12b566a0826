"""Reads CIFAR-10 and CIFAR-100 in both published forms: binary files and pickles.

An image is 3,072 bytes, 32×32 red, then green, then blue. In the binary form, one label byte
precedes each image (in CIFAR-100 two: coarse, fine). Source:
https://www.cs.toronto.edu/~kriz/cifar.html
"""

import tempfile
from pathlib import PurePosixPath
from typing import Any, cast

import numpy as np

from odt.core.storage.reading import listed
from odt.datasets.pickles import read_pickle
from odt.datasets.source import ArrayPart, Part, check_labels
from odt.datasets.tree import Tree
from odt.errors import DataError
from odt.kernels.rows.opdef import Array

PICTURE = 3 * 32 * 32
ROWS = 1000  # images copied at once
LIMIT = 1 << 28  # bytes of one file; the largest is CIFAR-100's pickle with 155 MB
CIFAR10 = (
    "airplane", "automobile", "bird", "cat", "deer",
    "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
BATCHES = tuple(f"data_batch_{k}" for k in range(1, 6))
COARSE, FINE = 20, 100  # classes of CIFAR-100
NAMES_LIMIT = 1 << 16  # bytes of a file of class names

Contents = tuple[dict[str, Part], tuple[str, ...]]  # parts by name, and class names


def read_cifar10(tree: Tree, variant: str) -> Contents:
    """Reads the parts train and test, and the class names; there are no variants."""
    names = {"train": BATCHES, "test": ("test_batch",)}
    return {part: _part(tree, files, "", CIFAR10) for part, files in names.items()}, CIFAR10


def read_cifar100(tree: Tree, variant: str) -> Contents:
    """Reads the parts train and test, and the class names; the variant is fine or coarse."""
    classes = _classes(tree, variant)
    names = {"train": ("train",), "test": ("test",)}
    return {part: _part(tree, files, variant, classes) for part, files in names.items()}, classes


def _part(tree: Tree, files: tuple[str, ...], variant: str, classes: tuple[str, ...]) -> ArrayPart:
    """Makes a part from several files; images are mapped from an unnamed temporary copy."""
    labels_of_files = []
    with tempfile.TemporaryFile() as plain:
        for name in files:
            pictures, labels = _file(tree, name, variant)
            labels_of_files.append(labels.astype(np.int32))
            for first in range(0, len(pictures), ROWS):
                plain.write(np.ascontiguousarray(pictures[first : first + ROWS]).data)
            del pictures  # before the next file is read
        plain.flush()
        labels = np.concatenate(labels_of_files)
        check_labels(f"{tree.name}: {files[0]}", labels, len(classes))
        shape = (len(labels), 3, 32, 32)
        planes = np.memmap(cast(Any, plain), np.uint8, "r", 0, shape)
    return ArrayPart([planes.transpose(0, 2, 3, 1)], [labels], has_classes=True)


def _file(tree: Tree, name: str, variant: str) -> tuple[Array, Array]:
    """Reads images and labels of one file: the binary form if it exists, else the pickle."""
    by_name = {PurePosixPath(path).name: path for path in tree.sizes}
    if f"{name}.bin" in by_name:
        return _binary(tree, by_name[f"{name}.bin"], variant)
    if name in by_name:
        return _pickle(tree, by_name[name], variant)
    raise DataError(
        f"{tree.name}: must hold {name}.bin or {name}, but does not. Give another folder or "
        "archive with `data_dir=`, or `download=True`."
    )


def _binary(tree: Tree, path: str, variant: str) -> tuple[Array, Array]:
    data = np.frombuffer(tree.read(path, LIMIT), np.uint8)
    label_bytes = 2 if variant else 1
    row = PICTURE + label_bytes
    if not len(data) or len(data) % row:
        raise DataError(f"{tree.where(path)}: must be rows of {row} bytes, but has {len(data)}.")
    rows = data.reshape(-1, row)
    return rows[:, label_bytes:], rows[:, 1 if variant == "fine" else 0]


def _pickle(tree: Tree, path: str, variant: str) -> tuple[Array, Array]:
    """Reads images (N, 3072) and labels (N,) of a pickle."""
    where = tree.where(path)
    content = _dictionary(tree, path)
    key = f"{variant}_labels" if variant else "labels"
    data = content.get("data")
    labels = content.get(key)
    if not isinstance(data, np.ndarray) or not isinstance(labels, list):
        raise DataError(f"{where}: must hold data and {key}, but has {listed(content)}.")
    if not labels or not all(type(label) is int and 0 <= label < 256 for label in labels):
        raise DataError(f"{where}: {key} must be class numbers, but they are not.")
    if data.dtype != np.uint8 or data.shape != (len(labels), PICTURE):
        raise DataError(
            f"{where}: must hold {PICTURE} bytes for each of {len(labels)} labels, but data is "
            f"{data.shape} {data.dtype}."
        )
    return data, np.asarray(labels, np.int64)


def _dictionary(tree: Tree, path: str) -> dict[str, Any]:
    content = read_pickle(tree.read(path, LIMIT), tree.where(path))
    if not isinstance(content, dict):
        raise DataError(f"{tree.where(path)}: must hold a dictionary, but does not.")
    return {k.decode("latin1") if isinstance(k, bytes) else str(k): v for k, v in content.items()}


def _classes(tree: Tree, variant: str) -> tuple[str, ...]:
    """Reads the class names from the file next to the data; numbers if the file is missing."""
    by_name = {PurePosixPath(path).name: path for path in tree.sizes}
    if path := by_name.get(f"{variant}_label_names.txt"):
        text = tree.read(path, NAMES_LIMIT).decode("utf-8", "replace")
        return tuple(text.split())
    if path := by_name.get("meta"):
        names = _dictionary(tree, path).get(f"{variant}_label_names", [])
        if not isinstance(names, list) or not all(isinstance(n, bytes | str) for n in names):
            raise DataError(
                f"{tree.where(path)}: {variant}_label_names must be a list of class names."
            )
        return tuple(n.decode("latin1") if isinstance(n, bytes) else str(n) for n in names)
    return tuple(str(k) for k in range(COARSE if variant == "coarse" else FINE))
