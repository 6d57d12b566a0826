"""Exports ONNX models: new weights in place of the old ones, all other bytes as they are.

Weights may be external data in other files. Two files cannot be renamed at once, so that a model
whose data files exist already is written twice: first with its data under new names, which only the
new model reads, then with their own names. A process that is killed leaves the old model with its
data, or the new one.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from odt.core.formats.onnx.locations import Patch, external_locations, relocations
from odt.core.formats.onnx.tensors import ExternalFiles
from odt.core.formats.protobuf import ProtobufError
from odt.core.formats.reader import read_model
from odt.core.lowering.onnx.lower import lower_onnx
from odt.core.model.model import ONNX, ExternalSpan, Model
from odt.core.storage.atomic_files import AtomicFile
from odt.dataclass import dataclass
from odt.errors import ModelError, OdtError
from odt.kernels.rows.opdef import Array

COPIED = 1 << 22  # bytes copied and compared at a time


class _Place(NamedTuple):
    """Bytes of a tensor in a file with external data; places sort by file and offset."""

    location: str
    offset: int
    end: int
    tensor: int


@dataclass(frozen=True, slots=True)
class Contents:
    """What the files of an export hold.

    Attributes:
        path: the model's file to write.
        model: bytes of the source, with patches.
        beside: location in the source → bytes of that file, with patches.
        values: tensor → new values as in the file.
    """

    path: str
    model: tuple[memoryview, Sequence[Patch]]
    beside: Mapping[str, tuple[memoryview, Sequence[Patch]]]
    values: Mapping[int, Array]

    def target(self, location: str) -> str:
        """Returns the path of a file with external data."""
        return os.path.join(os.path.dirname(os.path.abspath(self.path)), location)


def export_onnx(model: Model, weights: Mapping[int, Array], path: str | os.PathLike[str]) -> None:
    """Writes an ONNX model with new weights, and the files beside it that hold some of them.

    The files with external data keep their names in the model's own place and in another folder;
    beside the model, an export has its own. They may replace the model's and those of an earlier
    export.

    Args:
        model: the model as read.
        weights: tensor → new values, in the layout of memory.
        path: the file to write.

    Raises:
        ModelError: if a weight has no place of its own in the file, a file cannot be written, or
            the files that were read back differ.
        LostFileError: if the model's file became shorter.
    """
    check_places(model, weights)
    contents = _contents(model, weights, os.fspath(path))
    names = _names(model, contents)
    targets = [contents.target(name) for name in names.values()]
    if not any(map(os.path.exists, targets)):
        _write(model, contents, names)
        return
    first = {location: _unused(contents, name) for location, name in names.items()}
    _write(model, contents, first, names)
    for name in first.values():
        with suppress(OSError):
            os.unlink(contents.target(name))


def check_places(model: Model, weights: Mapping[int, Array]) -> None:
    """Checks that the files of an ONNX model have bytes for new values of these weights alone.

    Raises:
        ModelError: if they have not.
    """
    tensors = model.graph.tensors
    without = [
        model.graph.label(i)
        for i in weights
        if tensors[i].buffer not in model.external
        and model.spans[tensors[i].buffer][1] != tensors[i].spec.nbytes
    ]
    if without:
        raise ModelError(
            f"{model.path}: a trained weight must have bytes of its own, but "
            f"{', '.join(without)} is written as separate numbers"
        )
    places: list[_Place] = []
    for i, tensor in enumerate(tensors):
        span = model.external.get(tensor.buffer) if tensor.data is not None else None
        if span is not None and span.size:
            places.append(_Place(span.location, span.offset, span.offset + span.size, i))
    places.sort()
    shared = [
        f"{model.graph.label(one.tensor)} and {model.graph.label(other.tensor)}"
        for one, other in pairwise(places)
        if one.location == other.location
        and other.offset < one.end
        and not weights.keys().isdisjoint((one.tensor, other.tensor))
    ]
    if shared:
        raise ModelError(
            f"{model.path}: a trained weight must have bytes of its own, but {', '.join(shared)} "
            "share external data"
        )


def _contents(model: Model, weights: Mapping[int, Array], path: str) -> Contents:
    """Returns the expected contents of the files."""
    values = dict(_as_in_file(model, weights))
    beside = {span.location: span.data for span in model.external.values()}
    files = ExternalFiles(model.path)
    try:
        locations = external_locations(model.data)
        for location in locations:
            if location not in beside:  # of a tensor that odt does not read
                beside[location] = files.open(location)
    except ProtobufError as e:
        raise ModelError(f"{model.path}: {e}") from e
    patches: list[Patch] = []
    patches_beside: dict[str, list[Patch]] = {location: [] for location in locations}
    for i, new in values.items():
        buffer = model.graph.tensors[i].buffer
        span: ExternalSpan | None = model.external.get(buffer)
        if span is None:
            patches.append((model.spans[buffer][0], new.nbytes, _bytes_of(new)))
        else:
            patches_beside[span.location].append((span.offset, new.nbytes, _bytes_of(new)))
    files_beside = {
        location: (beside[location], patches_beside[location]) for location in locations
    }
    return Contents(path, (model.data, patches), files_beside, values)


def _as_in_file(model: Model, weights: Mapping[int, Array]) -> Iterator[tuple[int, Array]]:
    """Yields the new values of constants in the layout of the file."""
    lowered = lower_onnx(model).graph.tensors
    for i, new in weights.items():
        layout = lowered[i].layout
        values = new if layout is None else layout.to_file(new)
        yield i, values.reshape(model.graph.tensors[i].spec.shape)


def _names(model: Model, contents: Contents) -> Mapping[str, str]:
    """Returns the names of the files with external data: location in the source → new one."""
    replaceable = _locations_of(contents.path)

    def is_free(location: str) -> bool:
        return location in replaceable or not os.path.lexists(contents.target(location))

    source, target = (os.path.realpath(p) for p in (model.path, contents.path))
    elsewhere = os.path.dirname(source) != os.path.dirname(target)
    if source == target or (elsewhere and all(map(is_free, contents.beside))):
        return {location: location for location in contents.beside}
    base = os.path.basename(contents.path)
    count = len(contents.beside)
    numbers = ("",) if count == 1 else tuple(f".{k}" for k in range(count))
    names = {
        location: f"{base}{number}.data"
        for location, number in zip(contents.beside, numbers, strict=True)
    }
    if taken := [name for name in names.values() if not is_free(name)]:
        raise ModelError(
            f"{contents.path}: an export must not replace files of other models, but would write "
            f"{', '.join(taken)}. Give another name."
        )
    return names


def _locations_of(path: str) -> tuple[str, ...]:
    """Returns the files with external data of the model at a path; none if there is no model."""
    try:
        model = read_model(path) if os.path.exists(path) else None
        return external_locations(model.data) if model and model.format == ONNX else ()
    except (OdtError, ProtobufError):
        return ()


def _unused(contents: Contents, name: str) -> str:
    """Returns a name for a file with external data that no file has."""
    new = f"{name}.new"
    while os.path.lexists(contents.target(new)):
        new += "."
    return new


def _write(
    model: Model,
    contents: Contents,
    names: Mapping[str, str],
    again: Mapping[str, str] | None = None,
) -> None:
    """Writes files with external data and then the model that reads them.

    All files are complete before any of them gets its name.

    Args:
        model: the model as read.
        contents: what the files hold.
        names: their names: location in the source → name, which no file has.
        again: names under which they are written once more, replacing other files.
    """
    with ExitStack() as stack:

        def write(path: str, data: memoryview, patches: Sequence[Patch]) -> AtomicFile:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            file = AtomicFile(path)
            stack.callback(file.discard)
            for chunk in _patched(data, patches):
                file.write(chunk)
            _compare(contents.path, file.flush(), data, patches)
            return file

        pairs: list[tuple[list[AtomicFile], AtomicFile]] = []
        for each in (names,) if again is None else (names, again):
            beside = [
                write(contents.target(each[location]), data, patches)
                for location, (data, patches) in contents.beside.items()
            ]
            data, patches = contents.model
            moved = [*patches, *relocations(data, each)]
            pairs.append((beside, write(contents.path, data, moved)))
        model.check_file()
        for beside, file in pairs:
            for other in beside:
                other.commit()
            if file is pairs[0][1]:
                try:
                    _check_reads(contents, file.flush())
                except OdtError:
                    for other in beside:
                        os.unlink(other.path)
                    raise
            file.commit()


def _bytes_of(values: Array) -> memoryview:
    """Returns the bytes of values as in a file."""
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).data


def _patched(data: memoryview, patches: Sequence[Patch]) -> Iterator[memoryview]:
    """Yields the bytes of a file with other ones in some places."""
    at = 0
    for offset, size, new in sorted(patches, key=lambda patch: patch[:2]):
        yield from _parts(data[at:offset])
        yield from _parts(new)
        at = offset + size
    yield from _parts(data[at:])


def _parts(data: memoryview) -> Iterator[memoryview]:
    for at in range(0, len(data), COPIED):
        yield data[at : at + COPIED]


def _compare(name: str, written: str, data: memoryview, patches: Sequence[Patch]) -> None:
    """Reads a written file and compares it with what it must hold."""
    size = 0
    with open(written, "rb") as file:
        for chunk in _patched(data, patches):
            size += len(chunk)
            if file.read(len(chunk)) != chunk:
                raise _differs(name, f"other bytes before byte {size}")
        if file.read(1):
            raise _differs(name, f"more than {size} bytes")


def _check_reads(contents: Contents, written: str) -> None:
    """Reads a written model and compares its weights with the new values."""
    try:
        tensors = read_model(written).graph.tensors
    except ModelError as e:
        raise _differs(contents.path, str(e)) from e
    for i, new in contents.values.items():
        data = tensors[i].data
        if data is None or bytes(_bytes_of(data)) != bytes(_bytes_of(new)):
            raise _differs(contents.path, f'another value of "{tensors[i].name}"')


def _differs(name: str, got: str) -> ModelError:
    return ModelError(
        f"{name}: an export must read back as it was written, but got {got}. "
        "The file was not written."
    )
