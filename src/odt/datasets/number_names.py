"""Folders and files named by numbers, such as ages or angles, as targets for regression."""

from dataclasses import replace
from pathlib import PurePosixPath

import numpy as np

from odt.core.storage.reading import listed
from odt.datasets.source import OtherTargets, Part, Sample, Source
from odt.errors import DataError, OptionError
from odt.kernels.rows.opdef import Array

LARGEST = float(np.finfo(np.float32).max)


class ValuePart(OtherTargets):
    """A part whose targets are values."""

    def __init__(self, part: Part, values: Array) -> None:
        super().__init__(part)
        self._values = values

    def read(self, k: int) -> Sample:
        return Sample(self._part.read(k).inputs, (self._values[k],))


def with_values(source: Source) -> Source:
    """Returns a source whose classes are named by numbers, with these numbers as targets.

    Raises:
        DataError: for a class that is named by a word.
        OptionError: for a source without classes.
    """
    if not source.classes:
        raise OptionError("regression", f"{source.name} must have folders named by numbers")
    numbers = [_number(name) for name in source.classes]
    words = [name for name, number in zip(source.classes, numbers, strict=True) if number is None]
    if words:
        raise DataError(
            f"{source.name}: folders must be named by numbers for `regression=True`, but got "
            f"{listed(words)}. Leave `regression=True` out for classes."
        )
    values = np.asarray(numbers, np.float32)[:, np.newaxis]
    parts: dict[str, Part] = {}
    for name, part in source.parts.items():
        assert part.labels is not None, "a source with classes has labels"
        parts[name] = ValuePart(part, values[part.labels])
    return replace(source, parts=parts, classes=())


def with_values_of_folders(source: Source) -> Source:
    """Returns new data whose targets are the numbers in the names of their folders.

    The data stay without targets if a folder is not named by a number.
    """
    (part,) = source.parts.values()
    assert part.length is not None, "files are counted"
    folders = [PurePosixPath(part.label_of(k)).parent.name for k in range(part.length)]
    numbers = [_number(name) for name in folders]
    if part.labels is not None or any(number is None for number in numbers):
        return source
    return replace(
        source, parts={"all": ValuePart(part, np.asarray(numbers, np.float32)[:, np.newaxis])}
    )


def _number(name: str) -> float | None:
    """Returns the number in a name, with a point or a comma; None for a word or beyond LARGEST."""
    try:
        number = float(name.replace(",", "."))
    except ValueError:
        return None
    return number if abs(number) <= LARGEST else None
