"""Renames, merges, orders and completes classes."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from odt.core.storage.reading import listed, read_input, reading, whole_number
from odt.datasets.source import OtherTargets, Part, Sample, Source
from odt.errors import DataError, OptionError


class RelabeledPart(OtherTargets):
    """A part with renumbered classes."""

    def __init__(self, part: Part, numbers: Sequence[int]) -> None:
        super().__init__(part)
        self._numbers = np.asarray(numbers, np.int32)
        self.labels = None if part.labels is None else self._numbers[part.labels]

    def read(self, k: int) -> Sample:
        sample = self._part.read(k)
        label = np.asarray(self._numbers[int(sample.targets[0])])
        return Sample(sample.inputs, (label, *sample.targets[1:]))


def parse_label_map(text: str) -> dict[str, str]:
    """Parses `cat=pet,dog=pet`, or reads a JSON file with such pairs.

    Raises:
        OptionError: if the text is neither, or renames a class twice.
        DataError: if the file cannot be read.
    """
    if text.endswith(".json"):
        data = read_input(text, "a JSON file")
        with reading(text, "must be JSON"):
            content = json.loads(data.decode())
        names = content.values() if isinstance(content, dict) else (None,)
        if not all(isinstance(name, str | int) for name in names):
            raise DataError(f"{text}: must be a JSON object of class names, but is not.")
        return {str(k): str(v) for k, v in content.items()}
    pairs = [[part.strip() for part in item.partition("=")] for item in text.split(",")]
    if not all(equals and new for _, equals, new in pairs):
        raise OptionError("label_map", "must be OLD=NEW,…, or a JSON file", text)
    counts = Counter(old for old, _, _ in pairs)
    if twice := [old for old, count in counts.items() if count > 1]:
        raise OptionError("label_map", "must rename each class once", f"{listed(twice)} twice")
    return {old: new for old, _, new in pairs}


def class_names(text: str) -> tuple[str, ...]:
    """Returns the names in a list that is separated by commas.

    Raises:
        OptionError: for an empty name.
    """
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise OptionError("classes", "must be names separated by commas, none of them empty", text)
    return names


def relabel(source: Source, names: Mapping[str, str]) -> Source:
    """Renames classes of a source; classes that get the same name are merged.

    Raises:
        OptionError: for a name that is not a class.
    """
    unknown = sorted(set(names) - set(source.classes))
    if unknown:
        raise OptionError(
            "label_map",
            f"{source.name} has the classes {listed(source.classes) or 'none'}",
            listed(unknown),
        )
    new = [names.get(c, c) for c in source.classes]
    origin = {**source.origin, "label map": dict(names)}
    return _numbered(replace(source, origin=origin), new, tuple(dict.fromkeys(new)))


def order_classes(source: Source, classes: Sequence[str]) -> Source:
    """Numbers the classes of a source as a list says, which may have more classes.

    Classes that are numbers, such as those of a table, get the names at these places of the list.

    Raises:
        OptionError: if the list lacks a class of the source, or has one twice.
    """
    names = source.classes
    order = tuple(classes)
    if names == order:
        return source
    numbers = [number for c in names if (number := whole_number(c)) is not None]
    are_numbers = len(numbers) == len(names) and all(n < len(order) for n in numbers)
    if are_numbers and not set(names) & set(order):
        names = tuple(order[n] for n in numbers)
    if not set(names) <= set(order) or len(set(order)) < len(order):
        rule = f"must have each class of {source.name} once, {listed(names)}"
        raise OptionError("classes", rule, listed(order))
    return _numbered(source, names, order)


def _numbered(source: Source, names: Sequence[str], classes: tuple[str, ...]) -> Source:
    """Returns a source with other classes; `names` has the new name of each of its classes."""
    numbers = [classes.index(name) for name in names]
    parts = {name: RelabeledPart(part, numbers) for name, part in source.parts.items()}
    return replace(source, parts=parts, classes=classes)
