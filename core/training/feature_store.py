"""Stored features of a classifier's frozen part, by class, and the file that keeps them.

Training on them together with new samples (replay) keeps a model from forgetting what it knew.
Source: Pellegrini et al., Latent Replay for Real-Time Continual Learning (2019).

The file is an .npz. Its array `store` holds JSON as bytes: format, version, hash of the frozen
part, and for each class its name, the number of samples seen and the number stored. The array
`means` (K, F) holds the means of the classes in float32; `values` (n, F) int8 and `scales` (n,)
float32 hold the stored features, class after class, as core/training/exemplars.py describes them.
"""

import io
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.reading import guard, read_input, reading, without_warnings
from odt.core.training.exemplars import LARGEST, MAX_FEATURE, Exemplars
from odt.dataclass import dataclass
from odt.errors import DataError, OptionError
from odt.kernels.rows.opdef import Array

FORMAT = "odt-features"
VERSION = 1
RULE = "must be a store of features written by odt"
MAX_SEEN = 2**53  # samples of a class: JSON readers hold numbers as float64
DIGITS = 32  # of the two numbers of a class in JSON, at most


@dataclass(frozen=True, slots=True)
class FeatureStore:
    """Stored features of all classes.

    Attributes:
        frozen: hash of the frozen part that computes the features.
        width: F, number of features.
        classes: the classes in the order of the model's outputs.
    """

    frozen: str
    width: int
    classes: tuple[Exemplars, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.classes))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the classes."""
        return tuple(c.name for c in self.classes)

    @property
    def features(self) -> Array:
        """The restored features of all classes (n, F), float32, with the means of the classes."""
        rows = [c.centered for c in self.classes]
        return np.concatenate([np.empty((0, self.width), np.float32), *rows])

    @property
    def labels(self) -> Array:
        """The class of each stored sample (n,)."""
        return np.repeat(np.arange(len(self.classes)), [len(c) for c in self.classes])

    def with_names(self, names: Sequence[str]) -> "FeatureStore":
        """Returns the store with these classes: more, fewer or renamed ones, in this order."""
        # Classes beyond the names are dropped.
        classes = [replace(c, name=n) for c, n in zip(self.classes, names, strict=False)]
        added = [Exemplars.empty(n, self.width) for n in names[len(classes) :]]
        return replace(self, classes=(*classes, *added))

    def with_samples(
        self, features: Array, labels: Array, count: int, sampling: str, seed: int
    ) -> "FeatureStore":
        """Returns the store after more samples were offered.

        Args:
            features: features of the new samples (N, F), float32.
            labels: their classes (N,), as numbers.
            count: number of samples to store at most, for each class.
            sampling: reservoir or herding.
            seed: random seed of the reservoir.
        """
        rng = np.random.default_rng(seed)
        classes = (
            c.first(count).with_samples(features[labels == k], count, sampling, rng)
            for k, c in enumerate(self.classes)
        )
        return replace(self, classes=tuple(classes))

    def samples_within(self, count: int, nbytes: int) -> int:
        """Returns how many samples of each class may be stored.

        Args:
            count: most samples of a class.
            nbytes: most bytes of the file.

        Raises:
            OptionError: if the file has no space for one sample of each class.
        """
        empty = replace(self, classes=tuple(c.first(0) for c in self.classes))
        without = len(empty.encoded()) + DIGITS * len(self.classes)
        # A sample of each class: int8 values, and a scale in float32.
        one = len(self.classes) * (self.width + 4)
        if without + one > nbytes:
            rule = f"must be at least {without + one}, for one sample of each class"
            raise OptionError("store_bytes", rule, nbytes)
        return min(count, (nbytes - without) // one)

    def encoded(self) -> bytes:
        """The bytes of the file."""
        description = {
            "format": FORMAT,
            "version": VERSION,
            "frozen": self.frozen,
            "classes": [{"name": c.name, "seen": c.seen, "stored": len(c)} for c in self.classes],
        }
        text = json.dumps(description).encode()
        out, none = io.BytesIO(), np.empty((0, self.width))
        np.savez(
            out,
            store=np.frombuffer(text, np.uint8),
            means=np.concatenate([none.astype(np.float32), *(c.mean[None] for c in self.classes)]),
            values=np.concatenate([none.astype(np.int8), *(c.values for c in self.classes)]),
            scales=np.concatenate([np.empty(0, np.float32), *(c.scales for c in self.classes)]),
        )
        return out.getvalue()

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the file atomically.

        Raises:
            DataError: if the file cannot be written.
        """
        write_atomically(path, [self.encoded()], DataError)


def read_store(path: str | os.PathLike[str]) -> FeatureStore:
    """Reads a store.

    Raises:
        DataError: if the file cannot be read or is damaged.
    """
    import zipfile

    name, data = os.fspath(path), read_input(path)
    with reading(name, RULE), zipfile.ZipFile(io.BytesIO(data)) as archive:
        guard(name, len(data), sum(m.file_size for m in archive.infolist()))
        with without_warnings(), np.load(io.BytesIO(data), allow_pickle=False) as file:
            description: dict[str, Any] = json.loads(file["store"].tobytes())
            if (description["format"], description["version"]) != (FORMAT, VERSION):
                raise ValueError(f"format {description['format']} {description['version']}")
            means, values, scales = (file[n] for n in ("means", "values", "scales"))
        return _assemble(description, means, values, scales)


def _assemble(
    description: dict[str, Any], means: Array, values: Array, scales: Array
) -> FeatureStore:
    """Makes a store of what a file holds.

    Raises:
        ValueError: if arrays and description do not fit together.
    """
    entries = [(str(e["name"]), e["seen"], e["stored"]) for e in description["classes"]]
    for _, seen, stored in entries:
        if type(seen) is not int or type(stored) is not int or not 0 <= stored <= seen <= MAX_SEEN:
            raise ValueError(f"a class with {stored} of {seen} samples")
    names, width = [name for name, _, _ in entries], means.shape[-1]
    if len(set(names)) != len(names):
        raise ValueError("two classes of one name")
    expected = (
        (means, (len(names), width), np.float32),
        (values, (sum(stored for _, _, stored in entries), width), np.int8),
        (scales, (len(values),), np.float32),
    )
    for array, shape, dtype in expected:
        if array.shape != shape or array.dtype != dtype:
            raise ValueError(f"an array {array.shape} {array.dtype}, not {shape}")
    if (
        not (abs(means) <= MAX_FEATURE).all()
        or not ((scales >= 0) & (scales <= MAX_FEATURE / LARGEST)).all()
    ):
        raise ValueError("means or scales that are not finite, or too large")
    if not width:
        raise ValueError("no features")
    classes, at = [], 0
    for k, (name, seen, stored) in enumerate(entries):
        rows = slice(at, at + stored)
        classes.append(Exemplars(name, seen, means[k], values[rows], scales[rows]))
        at += stored
    return FeatureStore(str(description["frozen"]), width, tuple(classes))
