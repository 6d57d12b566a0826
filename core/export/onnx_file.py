"""Exports ONNX models: new weights in place of the old ones, all other bytes as they are."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import numpy as np

from odt.core.formats.reader import read_model
from odt.core.lowering.onnx.lower import lower_onnx
from odt.core.model.model import Model
from odt.core.storage.atomic_files import AtomicFile
from odt.errors import ModelError
from odt.kernels.rows.opdef import Array

COPIED = 1 << 22  # bytes copied and compared at a time
Patch = tuple[int, memoryview]


def export_onnx(model: Model, weights: Mapping[int, Array], path: str | os.PathLike[str]) -> None:
    """Writes an ONNX model with new weights, and the files beside it that hold some of them.

    Every file is complete before any of them gets its name. They may replace the model's.

    Args:
        model: the model as read.
        weights: tensor → new values, in the layout of memory.
        path: the file to write.

    Raises:
        ModelError: if a weight has no place of its own in the file, a file cannot be written, or
            the files that were read back differ.
        LostFileError: if the model's file became shorter.
    """
    name = os.fspath(path)
    values = dict(_as_in_file(model, weights))
    beside = {s.location: s.data for s in model.external.values()}
    _check_places(model, values, name, bool(beside))
    own: list[Patch] = []
    others: dict[str, list[Patch]] = {location: [] for location in beside}
    for i, new in values.items():
        buffer = model.graph.tensors[i].buffer
        external = model.external.get(buffer)
        if external is None:
            own.append((model.spans[buffer][0], _bytes_of(new)))
        else:
            others[external.location].append((external.offset, _bytes_of(new)))
    folder = os.path.dirname(os.path.abspath(name))
    with ExitStack() as stack:
        files: list[tuple[AtomicFile, memoryview, list[Patch]]] = []
        files.append((stack.enter_context(AtomicFile(name)), model.data, own))
        for location, data in beside.items():  # are renamed first: the stack unwinds backwards
            target = os.path.join(folder, location)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            files.append((stack.enter_context(AtomicFile(target)), data, others[location]))
        for file, data, patches in files:
            for chunk in _patched(data, patches):
                file.write(chunk)
            _compare(name, file.flush(), data, patches)
        model.check_file()
        if not beside:
            _check_reads(name, files[0][0].flush(), values)


def _as_in_file(model: Model, weights: Mapping[int, Array]) -> Iterator[tuple[int, Array]]:
    """Yields the new values of constants in the layout of the file."""
    lowered = lower_onnx(model).graph.tensors
    for i, new in weights.items():
        layout = lowered[i].layout
        values = new if layout is None else layout.to_file(new)
        yield i, values.reshape(model.graph.tensors[i].spec.shape)


def _check_places(model: Model, values: Mapping[int, Array], name: str, has_files: bool) -> None:
    """Checks that the file has bytes for all new values, and that no other model loses any."""
    tensors = model.graph.tensors
    without = [
        model.graph.label(i)
        for i, new in values.items()
        if tensors[i].buffer not in model.external
        and model.spans[tensors[i].buffer][1] != new.nbytes
    ]
    if without:
        raise ModelError(
            f"{name}: a trained weight must have bytes of its own in {model.path}, but "
            f"{', '.join(without)} is written as separate numbers"
        )
    source, target = (os.path.realpath(p) for p in (model.path, name))
    if has_files and source != target and os.path.dirname(source) == os.path.dirname(target):
        files = ", ".join(sorted({s.location for s in model.external.values()}))
        raise ModelError(
            f"{name}: an export must not change the weights of {model.path}, but both would read "
            f"{files}. Give a path in another folder."
        )


def _bytes_of(values: Array) -> memoryview:
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).data


def _patched(data: memoryview, patches: list[Patch]) -> Iterator[memoryview]:
    """Yields the bytes of a file with other ones in some places."""
    at = 0
    for offset, new in sorted(patches, key=lambda patch: patch[0]):
        yield from _parts(data[at:offset])
        yield from _parts(new)
        at = offset + len(new)
    yield from _parts(data[at:])


def _parts(data: memoryview) -> Iterator[memoryview]:
    for at in range(0, len(data), COPIED):
        yield data[at : at + COPIED]


def _compare(name: str, written: str, data: memoryview, patches: list[Patch]) -> None:
    """Reads a written file and compares it with what it must hold."""
    size = 0
    with open(written, "rb") as file:
        for chunk in _patched(data, patches):
            size += len(chunk)
            if file.read(len(chunk)) != chunk:
                raise _differs(name, f"other bytes before byte {size}")
        if file.read(1):
            raise _differs(name, f"more than {size} bytes")


def _check_reads(name: str, written: str, values: Mapping[int, Array]) -> None:
    """Reads a written model and compares its weights with the new values."""
    try:
        tensors = read_model(written).graph.tensors
    except ModelError as e:
        raise _differs(name, str(e)) from e
    for i, new in values.items():
        data = tensors[i].data
        if data is None or bytes(_bytes_of(data)) != bytes(_bytes_of(new)):
            raise _differs(name, f'another value of "{tensors[i].name}"')


def _differs(name: str, got: str) -> ModelError:
    return ModelError(
        f"{name}: an export must read back as it was written, but got {got}. "
        "The file was not written."
    )
