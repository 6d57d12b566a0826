"""Named data sets, read from a folder or archive in their published formats."""

import string
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from odt.core.storage.reading import ABSENT
from odt.dataclass import dataclass
from odt.datasets.cifar import read_cifar10, read_cifar100
from odt.datasets.download import Remote
from odt.datasets.idx import read_idx
from odt.datasets.source import ArrayPart, Part, Source, check_labels
from odt.datasets.tree import Tree, open_tree
from odt.errors import DataError, OptionError

DIGITS = tuple("0123456789")
FASHION = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
KANA = ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")
MNIST_PARTS = {"train": "train", "test": "t10k"}  # part → prefix of its files


@dataclass(frozen=True, slots=True)
class PublishedDataSet:
    """A named data set.

    Attributes:
        about: one line for the list of data sets.
        read: folder or archive, variant → parts and class names.
        files: published files.
        variants: names of variants; the first is the default.
    """

    about: str
    read: Callable[[Tree, str], tuple[Mapping[str, Part], tuple[str, ...]]]
    files: tuple[Remote, ...] = ()
    variants: tuple[str, ...] = ("",)


def open_published(name: str, folder: Path, variant: str = "") -> Source:
    """Opens a named data set in a local folder.

    Raises:
        OptionError: if there is no such variant.
        DataError: if the folder does not hold the data set.
    """
    published = PUBLISHED[name]
    variant = variant or published.variants[0]
    if variant not in published.variants:
        variants = ", ".join(published.variants) or "none"
        raise OptionError("variant", f"{name} has {variants}", variant)
    if not folder.exists():
        raise DataError(
            f"{folder}: must be the folder of {name}, but got: {ABSENT}. Give its files with "
            "`data_dir=`, or download them with `download=True`."
        )
    tree = open_tree(_archive(folder, published))
    parts, classes = published.read(tree, variant)
    origin: dict[str, Any] = {"dataset": name, "folder": str(folder)}
    return Source(name, "image", parts, classes, origin=origin)


def _archive(folder: Path, published: PublishedDataSet) -> Path:
    """Returns the archive in which the data set is published, if it is in the folder."""
    for file in published.files:
        # CIFAR is published as binary files, and as pickles in an archive named python.
        for name in (file.name, file.name.replace("binary", "python")):
            if name.endswith((".zip", ".tar.gz")) and (folder / name).is_file():
                return folder / name
    return folder


def _mnist(classes: tuple[str, ...]) -> Callable[[Tree, str], tuple[dict[str, Part], Any]]:
    def read(tree: Tree, variant: str) -> tuple[dict[str, Part], tuple[str, ...]]:
        parts: dict[str, Part] = {
            part: _idx_part(tree, f"{prefix}-images", f"{prefix}-labels", classes)
            for part, prefix in MNIST_PARTS.items()
        }
        return parts, classes

    return read


def _idx_part(
    tree: Tree, images_name: str, labels_name: str, classes: tuple[str, ...], first: int = 0
) -> ArrayPart:
    """Reads images and labels of one part; `first` is the number of the first class."""
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
    return ArrayPart([images[..., None]], [labels], has_classes=True)


def find_file(tree: Tree, *names: str) -> str:
    """Finds the file with the first of these names, optionally gzipped, at any depth.

    Raises:
        DataError: if no file has such a name.
    """
    by_name = {PurePosixPath(path).name: path for path in reversed(list(tree.sizes))}
    for name in names:
        for ending in (name, f"{name}.gz"):
            if ending in by_name:
                return by_name[ending]
    raise DataError(
        f"{tree.name}: must hold {names[0]} or {names[0]}.gz, but does not. Give another folder "
        "with `data_dir=`, or `download=True`."
    )


def _emnist(tree: Tree, variant: str) -> tuple[dict[str, Part], tuple[str, ...]]:
    """Reads EMNIST, whose files hold transposed images."""
    classes = EMNIST[variant]
    parts: dict[str, Part] = {}
    for part in ("train", "test"):
        prefix = f"emnist-{variant}-{part}"
        first = 1 if variant == "letters" else 0
        images = _idx_part(tree, f"{prefix}-images", f"{prefix}-labels", classes, first)
        images.inputs = (images.inputs[0].transpose(0, 2, 1, 3),)
        parts[part] = images
    return parts, classes


def _mnist_files(url: str, *checksums: str) -> tuple[Remote, ...]:
    """Returns the four files of a data set in MNIST's form, with their md5 checksums."""
    pairs = zip(MNIST_FILES, checksums, strict=True)
    return tuple(Remote(f"{url}/{name}.gz", md5) for name, md5 in pairs)


LETTERS = string.ascii_uppercase
MERGED = "abdefghnqrt"  # lower-case letters that look unlike their capitals
EMNIST = {
    "balanced": tuple(string.digits + LETTERS + MERGED),
    "byclass": tuple(string.digits + LETTERS + string.ascii_lowercase),
    "bymerge": tuple(string.digits + LETTERS + MERGED),
    "digits": DIGITS,
    "letters": tuple(LETTERS),
    "mnist": DIGITS,
}
MNIST_FILES = (
    "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
)  # fmt: skip
KRIZ = "https://www.cs.toronto.edu/~kriz"

# Checksums published with the data sets or by torchvision.
PUBLISHED: dict[str, PublishedDataSet] = {
    "cifar10": PublishedDataSet(
        "32×32 color, 10 classes, 50,000 + 10,000",
        read_cifar10,
        (Remote(f"{KRIZ}/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),),
    ),
    "cifar100": PublishedDataSet(
        "32×32 color, 100 classes (fine) or 20 (coarse), 50,000 + 10,000",
        read_cifar100,
        (Remote(f"{KRIZ}/cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),),
        ("fine", "coarse"),
    ),
    "emnist": PublishedDataSet(
        "28×28 gray, digits and letters in six selections",
        _emnist,
        (
            Remote(
                "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
                "58c8d27c78d21e728a6bc7b3cc06412e",
            ),
        ),
        tuple(EMNIST),
    ),
    "fashion_mnist": PublishedDataSet(
        "28×28 gray, 10 kinds of clothes, 60,000 + 10,000",
        _mnist(FASHION),
        _mnist_files(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
    ),
    "kmnist": PublishedDataSet(
        "28×28 gray, 10 classical Japanese letters, 60,000 + 10,000",
        _mnist(KANA),
        _mnist_files(
            "http://codh.rois.ac.jp/kmnist/dataset/kmnist",
            "bdb82020997e1d708af4cf47b453dcf7",
            "e144d726b3acfaa3e44228e80efcd344",
            "5c965bf0a639b31b8f53240b1b52f4d7",
            "7320c461ea6c1c855c0b718fb2a4b134",
        ),
    ),
    "mnist": PublishedDataSet(
        "28×28 gray, 10 digits, 60,000 + 10,000",
        _mnist(DIGITS),
        _mnist_files(
            "https://ossci-datasets.s3.amazonaws.com/mnist",
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
    ),
}
