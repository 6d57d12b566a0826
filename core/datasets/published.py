"""Named data sets, read from a folder or archive in the formats they are published in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from odt.core.datasets.idx import read_idx
from odt.core.datasets.source import ArrayPart, Part, Source, check_labels
from odt.core.datasets.tree import Tree, open_tree
from odt.errors import DataError

DIGITS = tuple("0123456789")
FASHION = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
KANA = ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")
MNIST_PARTS = {"train": "train", "test": "t10k"}  # part: how its files begin


@dataclass(frozen=True, slots=True)
class Published:
    """A data set that has a name.

    Attributes:
        about: one line for --show-datasets.
        read: folder or archive, variant → source without its name.
        variants: of which the first is the default.
    """

    about: str
    read: Callable[[Tree, str], tuple[Mapping[str, Part], tuple[str, ...]]]
    variants: tuple[str, ...] = ("",)


def open_published(name: str, folder: Path, variant: str = "") -> Source:
    """A named data set from a local folder.

    Raises:
        DataError: if there is no such set or variant, or the folder does not hold it.
    """
    published = PUBLISHED[name]
    if (variant or published.variants[0]) not in published.variants:
        known = ", ".join(published.variants) or "none"
        raise DataError(f"--variant: {name} has {known}, but got {variant}.")
    if not folder.exists():
        raise DataError(
            f"{folder}: must be the folder of {name}, but it is not there. Give its files with "
            "--data-dir, or --download them."
        )
    parts, classes = published.read(open_tree(folder), variant or published.variants[0])
    origin: dict[str, Any] = {"dataset": name, "folder": str(folder)}
    return Source(name, "image", parts, classes, origin=origin)


def _mnist(classes: tuple[str, ...]) -> Callable[[Tree, str], tuple[dict[str, Part], Any]]:
    def read(tree: Tree, variant: str) -> tuple[dict[str, Part], tuple[str, ...]]:
        parts: dict[str, Part] = {
            part: _idx_part(tree, f"{begin}-images", f"{begin}-labels", classes)
            for part, begin in MNIST_PARTS.items()
        }
        return parts, classes

    return read


def _idx_part(
    tree: Tree, images_name: str, labels_name: str, classes: tuple[str, ...], first: int = 0
) -> ArrayPart:
    """Images and labels of one part; first is the number of the first class."""
    images_file = find_file(tree, f"{images_name}-idx3-ubyte", f"{images_name}.idx3-ubyte")
    labels_file = find_file(tree, f"{labels_name}-idx1-ubyte", f"{labels_name}.idx1-ubyte")
    images = read_idx(tree, images_file, 3)
    labels = read_idx(tree, labels_file, 1).astype(np.int32) - first
    if len(images) != len(labels):
        raise DataError(
            f"{tree.where(labels_file)}: must have a label for each image, but got "
            f"{len(labels)} for {len(images)}."
        )
    check_labels(tree.where(labels_file), labels, len(classes))
    return ArrayPart([images[..., None]], [labels], classes=True)


def find_file(tree: Tree, *names: str) -> str:
    """The file of the first of these names, gzipped or not, at any depth.

    Raises:
        DataError: if there is none.
    """
    by_name = {PurePosixPath(path).name: path for path in reversed(list(tree.sizes))}
    for name in names:
        for ending in (name, f"{name}.gz"):
            if ending in by_name:
                return by_name[ending]
    raise DataError(
        f"{tree.name}: must hold {names[0]} or {names[0]}.gz, but does not. "
        "Give the right folder with --data-dir, or --download."
    )


PUBLISHED: dict[str, Published] = {
    "fashion_mnist": Published("28×28 grey, 10 kinds of clothes, 60,000 + 10,000", _mnist(FASHION)),
    "kmnist": Published("28×28 grey, 10 classical Japanese letters, 60,000 + 10,000", _mnist(KANA)),
    "mnist": Published("28×28 grey, 10 digits, 60,000 + 10,000", _mnist(DIGITS)),
}
