"""What every source of samples looks like: parts, samples, classes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from odt.errors import DataError
from odt.kernels.opdef import Array

# image: uint8 (H, W, C). sound: float (samples,). features: numbers of any shape.
Kind: TypeAlias = Literal["image", "sound", "features"]


class SampleError(DataError):
    """One sample that cannot be used; --on-error skip goes on without it."""


class MissingValueError(SampleError):
    """A sample with a value missing; --missing drop goes on without it."""


class EndOfSamplesError(Exception):
    """A part of unknown length has no sample of this number."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample, before preprocessing.

    Attributes:
        inputs: one array for each model input.
        targets: a class number of shape (), or values.
    """

    inputs: tuple[Array, ...]
    targets: tuple[Array, ...]


class Part:
    """The samples of one part of a source, by number; read from several threads at once.

    Attributes:
        length: how many; None if only reading to the end can tell.
        sequential: samples come one after the other; reading an earlier one starts again.
        labels: class number of each; None where targets are values or not known beforehand.
    """

    length: int | None
    labels: Array | None = None
    sequential: bool = False

    def read(self, k: int) -> Sample:
        """Sample k.

        Raises:
            SampleError: if it cannot be read.
            EndOfSamplesError: if length is None and there are not so many.
        """
        raise NotImplementedError

    def label_of(self, k: int) -> str:
        """How messages name sample k."""
        return f"sample {k}"

    def groups(self, rule: str) -> Sequence[str]:
        """For each sample what it belongs to, such as the person who spoke.

        Raises:
            DataError: if this kind of source has no groups.
        """
        raise DataError(f"--group-by {rule}: this source has neither columns nor file names.")


class ArrayPart(Part):
    """Samples that stand in arrays, mapped or not; the first axis counts them."""

    def __init__(self, inputs: Sequence[Array], targets: Sequence[Array], classes: bool) -> None:
        self.inputs = tuple(inputs)
        self.targets = tuple(targets)
        self.length = len(self.inputs[0])
        self.labels = np.asarray(self.targets[0]).reshape(self.length) if classes else None

    def read(self, k: int) -> Sample:
        inputs, targets = self.inputs, self.targets
        return Sample(tuple(a[k] for a in inputs), tuple(np.asarray(t[k]) for t in targets))


@dataclass(frozen=True, slots=True)
class Source:
    """A data set.

    Attributes:
        name: of the set, or its path.
        kind: what its inputs are.
        parts: by name, as the set comes: train and test, or all.
        classes: names by class number; empty where targets are values.
        sorted_by_class: one class after the other, so that it must be shuffled to be of use.
        decoded: reading a sample takes work that threads can share.
        origin: what the sidecar says of where it came from.
    """

    name: str
    kind: Kind
    parts: Mapping[str, Part]
    classes: tuple[str, ...] = ()
    sorted_by_class: bool = False
    decoded: bool = False
    origin: Mapping[str, Any] = field(default_factory=dict)


def check_labels(name: str, labels: Array, classes: int) -> None:
    """Raises DataError for a label that is no class."""
    if len(labels) and not (labels.min() >= 0 and labels.max() < classes):
        bad = int(np.argmax((labels < 0) | (labels >= classes)))
        raise DataError(
            f"{name}: labels must be 0 … {classes - 1}, but sample {bad} has {labels[bad]}."
        )
