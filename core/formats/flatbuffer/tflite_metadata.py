"""Reads the preprocessing record of a model: odt's own, or TFLite Model Metadata.

TFLite Model Metadata is a flatbuffer in the buffer that the model's metadata names
TFLITE_METADATA; the files that it refers to are in a zip archive at the end of the model file.
"""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from odt.core.formats.flatbuffer.flatbuffer import FlatBuffer
from odt.core.formats.flatbuffer.schema_tables import code_of, unpack
from odt.core.model.model import Model
from odt.core.model.record import CHANNELS_FIRST, ENTRY, Record, is_channels_first, parse_record
from odt.errors import ModelError
from odt.schemas.tflite_metadata import IDENTIFIER

NAME = "TFLITE_METADATA"
MAX_LABELS = 1 << 24  # bytes of a file of labels
MAX_ARCHIVE = 1 << 28  # bytes of all files
KINDS = ("AXIS", "VALUE")  # of files of labels: a line names an entry of an axis, or a value


def read_record(model: Model) -> Record | None:
    """Returns the preprocessing record of a model; None if it has none.

    Raises:
        DataError: if odt's own entry is damaged.
    """
    index = model.metadata.get(ENTRY)
    if index is not None:
        return parse_record(model.path, bytes(model.buffer(index)))
    content = read_metadata(model)
    return None if content is None else _record_of(model, content)


def read_metadata(model: Model) -> dict[str, Any] | None:
    """Reads the tables of TFLite Model Metadata; None if they are missing or damaged."""
    index = model.metadata.get(NAME)
    data = model.buffer(index) if index is not None else memoryview(b"")
    if bytes(data[4:8]) != IDENTIFIER:
        return None
    try:
        return unpack(FlatBuffer(f"{model.path}: {NAME}", data).root(), "ModelMetadata")
    except ModelError:
        return None


def associated_file(model: Model, name: str) -> bytes:
    """Reads a file in the zip archive at the end of a model file; empty if there is none."""
    import zipfile

    try:
        with zipfile.ZipFile(_View(model.data)) as archive:
            member = archive.getinfo(name)
            return archive.read(member) if member.file_size <= MAX_LABELS else b""
    except Exception:  # a file may end in any bytes
        return b""


def associated_files(model: Model) -> dict[str, bytes]:
    """Reads all files in the zip archive at the end of a model file; none if it is damaged."""
    import zipfile

    try:
        with zipfile.ZipFile(_View(model.data)) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > MAX_ARCHIVE:
                return {}
            return {member.filename: archive.read(member) for member in members}
    except Exception:  # a file may end in any bytes
        return {}


def label_files(
    tensors: Iterable[Mapping[str, Any]], kinds: Sequence[str] = KINDS
) -> Iterator[str]:
    """Yields the names of the files of labels.

    Args:
        tensors: tables of tensors.
        kinds: kinds of files, of KINDS.
    """
    codes = {code_of("AssociatedFileType", f"TENSOR_{kind}_LABELS") for kind in kinds}
    for tensor in tensors:
        for file in tensor.get("associated_files", ()):
            if file.get("type", 0) in codes and isinstance(file.get("name"), bytes):
                yield file["name"].decode("utf-8", "replace")


def read_labels(model: Model, name: str) -> list[str]:
    """Reads the lines of a file of labels; none if there is no such file."""
    return associated_file(model, name).decode("utf-8", "replace").splitlines()


class _View(io.RawIOBase):
    """A memoryview as a file object, without a copy."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        at = (0, self._at, len(self._data))[whence] + offset
        if at < 0:
            raise OSError("before the file")
        self._at = at
        return at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = len(self._data) if size < 0 else self._at + size
        data = bytes(self._data[self._at : end])
        self._at += len(data)
        return data


def _record_of(model: Model, content: Mapping[str, Any]) -> Record | None:
    """Makes a record from TFLite Model Metadata; None if it does not describe the input."""
    graph = (content.get("subgraph_metadata") or [{}])[0]
    tensors = graph.get("input_tensor_metadata") or []
    if len(tensors) != 1 or len(model.graph.inputs) != 1:
        return None
    shape = model.graph.tensors[model.graph.inputs[0]].spec.shape[1:]
    properties = code_of("ContentProperties", "ImageProperties")
    is_image = tensors[0].get("content", {}).get("content_properties_type", 0) == properties
    steps: list[dict[str, Any]] = []
    if is_image and len(shape) == 3:
        height, width, channels = shape
        if is_channels_first(shape):
            channels, height, width = shape
        steps.append({"step": "color", "to": "rgb" if channels == 3 else "grayscale"})
        steps.append({"step": "resize", "height": height, "width": width})
    mean, std = normalization(tensors[0])
    steps += normalizing_steps(mean, std)
    if is_image and is_channels_first(shape):
        steps.append({"step": "axes", "to": CHANNELS_FIRST})
    steps.append({"step": "shape", "shape": list(shape)})
    return Record("image" if is_image else "features", tuple(steps), _labels(model, graph))


def normalization(tensor: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """Returns mean and std from a tensor's metadata; empty lists if there are none."""
    kind = code_of("ProcessUnitOptions", "NormalizationOptions")
    for unit in tensor.get("process_units", ()):
        if unit.get("options_type", 0) == kind:
            options = unit.get("options", {})
            mean, std = ([float(x) for x in options.get(name, ())] for name in ("mean", "std"))
            return mean, std
    return [], []


def normalizing_steps(mean: Sequence[float], std: Sequence[float]) -> list[dict[str, Any]]:
    """Returns steps for (x − mean) / std, as a scale if odt has a name for it."""
    named = {((127.5,), (127.5,)): "-1..1", ((0.0,), (255.0,)): "0..1", ((0.0,), (1.0,)): ""}
    pair = tuple(sorted(set(mean))), tuple(sorted(set(std)))
    if not mean or not std:
        return []
    if pair not in named:
        return [{"step": "mean and std", "mean": list(mean), "std": list(std)}]
    return [{"step": "scale", "to": named[pair]}] if named[pair] else []


def _labels(model: Model, graph: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns class names from the label file of an output, if there is one for each value."""
    outputs = [model.graph.tensors[i].spec.shape for i in model.graph.outputs]
    # Metadata may describe fewer tensors than there are, or more.
    for shape, tensor in zip(outputs, graph.get("output_tensor_metadata") or [], strict=False):
        for file in label_files([tensor]):
            names = read_labels(model, file)
            if shape and len(names) == shape[-1]:
                return tuple(names)
    return ()
