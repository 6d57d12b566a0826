"""Finds the split and the class of files from the folders in their paths.

A split is a folder named train, test, validation or alike, at any depth. The folder below it names
the class; without splits the first folder does, not counting folders that hold all files. Folders
below that of the class may have any names. torchvision and Keras do the same.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from odt.dataclass import dataclass

# Name of a folder → split.
SPLITS = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
}
# Names such as seg_train, test_set, val-images and train2017: splits only beside another one.
LOOSE = re.compile(
    rf"(.*[\W_])?({'|'.join(SPLITS)})"
    r"(?:[\W_]?(?:set|split|data|images?|imgs?|photos|audio|files|\d+))?",
    re.ASCII,
)
ALL = "all"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file belongs.

    Attributes:
        split: train, test or validation; "all" for a file outside of such folders.
        label: name of the class; empty for none.
        folder: path of the folder that names the class.
        below: path of the file below the folder of its split.
    """

    split: str
    label: str
    folder: PurePosixPath
    below: str


def place_files(names: Sequence[str], *, by_folder: bool = False) -> list[Place]:
    """Returns the place of each file.

    Args:
        names: paths with slashes.
        by_folder: whether folders name the classes. A single folder such as train beside others,
            without folders below it, is then a class of that name.
    """
    paths = [name.rpartition("/") for name in names]
    folders = {folder: PurePosixPath(folder).parts for folder, _, _ in paths}
    place_of = dict(zip(folders, _places(list(folders.values()), by_folder), strict=True))
    places = []
    for folder, _, file in paths:
        place = place_of[folder]
        below = f"{place.below}/{file}" if place.below else file
        places.append(Place(place.split, place.label, place.folder, below))
    return places


def _places(folders: Sequence[tuple[str, ...]], by_folder: bool) -> list[Place]:
    """Returns the places of folders; `below` is the path of a folder below that of its split.

    First finds the folder of the split in each path, by the loosest rule that fits all paths; then
    the folder of the class, below the split or above it.
    """
    for split_of in (_loose, _leading, _exact):
        positions = [_position(parts, split_of) for parts in folders]
        below = [
            _below(parts[k + 1 :], split_of) if k >= 0 else ()
            for parts, k in zip(folders, positions, strict=True)
        ]
        nested = any(below)
        splits = {split_of(parts[k]) for parts, k in zip(folders, positions, strict=True) if k >= 0}
        # Folders of classes may be named like splits, so all must be splits, or have folders below.
        all_in_splits = -1 not in positions and split_of is not _loose
        if len(splits) > 1 and (nested or all_in_splits or not by_folder):
            break
    # A single split beside other folders is none, unless it is on top and has folders of classes.
    on_top = {*positions} <= {-1, _shared(folders)}
    if len(splits) < 2 and -1 in positions and not (by_folder and nested and on_top):
        positions = [-1] * len(folders)
        below = [()] * len(folders)
    above = not nested and -1 not in positions  # the class may be the folder above: cat/train/1.jpg
    shared = _shared([p for p, k in zip(folders, positions, strict=True) if k < 0 or above])
    places = []
    for parts, k, inner in zip(folders, positions, below, strict=True):
        outer = parts[:k] if k >= 0 else parts
        # The folder of all files is a class, if there is no other.
        level = min(shared, len(outer) - 1) if len(folders) == 1 and k < 0 else shared
        folder: tuple[str, ...] = ()
        if inner:
            folder = parts[: len(parts) - len(inner) + 1]
        elif len(outer) > level >= 0 and (above or k < 0):
            folder = outer[: level + 1]
        path = PurePosixPath(*folder)
        split = split_of(parts[k]) if k >= 0 else ALL
        places.append(Place(split, path.name, path, "/".join(parts[k + 1 :])))
    return places


def _position(parts: tuple[str, ...], split_of: Callable[[str], str]) -> int:
    """Returns the position of the first folder that names a split; −1 for a path without one."""
    return next((k for k, folder in enumerate(parts) if split_of(folder)), -1)


@lru_cache
def _exact(folder: str) -> str:
    """Returns the split that a folder is named by; empty for none."""
    return SPLITS.get(folder.lower(), "")


@lru_cache
def _loose(folder: str) -> str:
    """Returns the split whose name is in that of a folder, such as seg_train; empty for none."""
    match = LOOSE.fullmatch(folder.lower())
    return SPLITS[match[2]] if match else ""


@lru_cache
def _leading(folder: str) -> str:
    """Returns the split with which a name begins, such as train2017; empty for none."""
    match = LOOSE.fullmatch(folder.lower())
    return SPLITS[match[2]] if match and not match[1] else ""


def _below(parts: tuple[str, ...], split_of: Callable[[str], str]) -> tuple[str, ...]:
    """Returns the folders below a split, without repetitions as in seg_train/seg_train/forest."""
    while len(parts) > 1 and split_of(parts[0]):
        parts = parts[1:]
    return parts


def _shared(folders: Sequence[tuple[str, ...]]) -> int:
    """Returns the number of first folders that are the same in all paths."""
    # Paths differ in length; levels that all share end with the shortest.
    same = itertools.takewhile(lambda level: len({*level}) == 1, zip(*{*folders}, strict=False))
    return len(list(same))
