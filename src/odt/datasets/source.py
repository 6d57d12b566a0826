"""The interface of a source of samples: parts, samples, classes."""

import mmap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias

import numpy as np

from odt.core.storage.mapped_files import MappedFile
from odt.core.storage.reading import printable, reading
from odt.dataclass import dataclass
from odt.errors import DataError, OptionError
from odt.kernels.rows.opdef import Array

# image: uint8 (H, W, C) or (H, W). sound: float (samples,). features: numbers of any shape.
Kind: TypeAlias = Literal["image", "sound", "features"]

RELEASE_AFTER = 1 << 26  # bytes read from mapped files before their pages are released


class SampleError(DataError):
    """A sample that cannot be used and may be left out."""


class MissingValueError(SampleError):
    """A sample with a missing value, which may be left out.

    Attributes:
        position: position of the value along the last axis of the input; None for a target.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


@dataclass(frozen=True, slots=True)
class Remark:
    """What was done to a sample while it was read, which the user may not expect.

    Attributes:
        text: what was done, for several samples: "cut to 1 s".
        seconds: original length of a clip; 0 for others.
    """

    text: str
    seconds: float = 0.0


class Remarks:
    """Remarks about the samples of a source, each sample counted once. Threads may add."""

    def __init__(self) -> None:
        self._by_sample: dict[str, tuple[Remark, ...]] = {}

    def add(self, name: str, remarks: Sequence[Remark]) -> None:
        """Adds what was done to a sample."""
        self._by_sample[name] = tuple(remarks)

    def lines(self) -> list[str]:
        """Returns one line for each kind of remark: how many samples, and which text."""
        remarks = [remark for group in self._by_sample.values() for remark in group]
        counts = Counter(remark.text for remark in remarks)
        return [
            f"{count} of {len(self._by_sample)} files: {text}{_longest(remarks, text)}."
            for text, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        ]


def _longest(remarks: Sequence[Remark], text: str) -> str:
    seconds = max(remark.seconds for remark in remarks if remark.text == text)
    return f"; the longest has {seconds:.4g} s" if seconds else ""


class EndOfSamplesError(Exception):
    """Raised by a part of unknown length that has fewer samples."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample, before preprocessing.

    Attributes:
        inputs: one array for each model input.
        targets: a class number of shape (), or values; empty for a sample without targets.
    """

    inputs: tuple[Array, ...]
    targets: tuple[Array, ...]


class Part:
    """The samples of one part of a source, by number. Several threads may read concurrently.

    Attributes:
        length: number of samples; None if it is known only after reading all.
        sequential: whether samples can only be read in order; reading an earlier one starts again.
        labels: class number of each sample; None if targets are values or not known yet.
    """

    length: int | None
    labels: Array | None = None
    sequential: bool = False

    def read(self, k: int) -> Sample:
        """Reads sample k.

        Raises:
            SampleError: if the sample cannot be read.
            EndOfSamplesError: if length is None and there are at most k samples.
        """
        raise NotImplementedError

    def label_of(self, k: int) -> str:
        """Returns the name of sample k in messages."""
        return f"sample {k}"

    def file_of(self, k: int) -> str:
        """Returns the path of the file of sample k in its folder; empty for other samples."""
        return ""

    def groups(self, rule: str) -> Sequence[str]:
        """Returns the group of each sample, such as the speaker.

        Raises:
            OptionError: if a source of this kind has no groups.
        """
        raise OptionError("group_by", "this source has neither columns nor file names", rule)


class OtherTargets(Part):
    """The samples of a part with other targets."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self.length = part.length
        self.sequential = part.sequential

    def label_of(self, k: int) -> str:
        return self._part.label_of(k)

    def file_of(self, k: int) -> str:
        return self._part.file_of(k)

    def groups(self, rule: str) -> Sequence[str]:
        return self._part.groups(rule)


class ArrayPart(Part):
    """Samples along the first axis of arrays, which may be mapped files.

    Args:
        inputs: arrays (N, …) of the inputs.
        targets: arrays (N, …) of the targets.
        has_classes: whether the first target is the class of a sample.
        name: name of the file in messages.
    """

    def __init__(
        self, inputs: Sequence[Array], targets: Sequence[Array], has_classes: bool, name: str = ""
    ) -> None:
        self._name = name
        self.inputs = tuple(inputs)
        self.targets = tuple(targets)
        self.length = len(self.inputs[0])
        self.labels = np.asarray(self.targets[0]).reshape(self.length) if has_classes else None
        self._maps = [m for a in (*self.inputs, *self.targets) for m in _maps(a)]
        self._until_release = RELEASE_AFTER  # bytes
        # Bytes of the inputs of a sample.
        self._nbytes = sum(int(np.prod(a.shape[1:])) * a.dtype.itemsize for a in self.inputs)

    def read(self, k: int) -> Sample:
        inputs, targets = self.inputs, self.targets
        self._until_release -= self._nbytes
        if self._until_release < 0:
            self._until_release = RELEASE_AFTER
            for m in self._maps:
                m.madvise(mmap.MADV_DONTNEED)
        with reading(f"{self._name}: sample {k}", "must be readable", SampleError):
            return Sample(tuple(a[k] for a in inputs), tuple(np.asarray(t[k]) for t in targets))


def _maps(a: Any) -> Iterator[mmap.mmap]:
    """Yields the mapped file of an array, if there is one and the system can release its pages.

    A view holds its array, and an array its map, as `base`.
    """
    while a is not None:
        if isinstance(a, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            yield a
        a = getattr(a, "base", None)


@dataclass(frozen=True, slots=True)
class Source:
    """A data set.

    Attributes:
        name: name of the data set, or its path.
        kind: kind of its inputs.
        parts: name → part: train and test, or all.
        classes: class names by number; empty if targets are values.
        sorted_by_class: whether samples are sorted by class and must be shuffled.
        decoded: whether samples are decoded when read, which threads can do in parallel.
        origin: description of the source for the sidecar.
        tags: names of the target's values; empty if they have none.
        overlap: samples before a sample that share values with it, as windows of a series do.
        series: number of samples of each series, in order; empty for one.
        columns: names of the numbers of a sample, for tables.
        notes: warnings for the user.
        remarks: what was done to samples, complete when they were read; one for each name.
        faults: what is wrong with the source, reported together with faulty samples.
        sound, table: how sound files and tables are read, for the preprocessing record.
        boxes: for targets that are boxes: class names, format, what was left out; else empty.
        files: files that are read while samples are read.
        dtype: dtype of inputs and targets in the files, for numbers that are no quantities, such as
            tokens; None to let options decide.
    """

    name: str
    kind: Kind
    parts: Mapping[str, Part]
    classes: tuple[str, ...] = ()
    sorted_by_class: bool = False
    decoded: bool = False
    origin: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    overlap: int = 0
    series: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    remarks: Mapping[str, Remarks] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    sound: Mapping[str, Any] = field(default_factory=dict)
    table: Mapping[str, Any] = field(default_factory=dict)
    boxes: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[MappedFile, ...] = ()
    dtype: np.dtype[Any] | None = None

    def remark_notes(self) -> list[str]:
        """Returns a note for each kind of remark about the samples read so far."""
        return [
            f"note: {name}: {line}"
            for name, remarks in self.remarks.items()
            for line in remarks.lines()
        ]


# What to do about a missing value in new data.
NO_GAPS = (
    "The training data have no missing values, so that none can be filled in: fill it in, or make "
    'the training data with `missing="mean"`.'
)


def missing_value(source: Source, part: Part, k: int, e: MissingValueError, remedy: str) -> str:
    """Returns the message for a sample with a missing value: its place, column and remedy."""
    has_name = e.position is not None and e.position < len(source.columns)
    column = f"column {printable(source.columns[e.position or 0])}: " if has_name else ""
    return f"{source.name}: {part.label_of(k)}: {column}{e}. {remedy}"


def check_labels(name: str, labels: Array, classes: int) -> None:
    """Raises DataError for a label that is not a class number."""
    if len(labels) and not (labels.min() >= 0 and labels.max() < classes):
        bad = int(np.argmax((labels < 0) | (labels >= classes)))  # the first
        raise DataError(
            f"{name}: labels must be 0 … {classes - 1}, but sample {bad} has {labels[bad]}."
        )
