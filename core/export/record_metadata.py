"""The metadata entries of a preprocessing record: odt's own, and TFLite Model Metadata.

TFLite Model Metadata holds what it has a place for: normalization and range of the input, the
color of pictures, and a file with the class names, in a zip archive after the model.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from odt.core.formats.flatbuffer.appended_zip import appended_archive
from odt.core.formats.flatbuffer.schema_tables import code_of, pack
from odt.core.formats.flatbuffer.tflite_metadata import (
    NAME,
    associated_file,
    normalization,
    read_metadata,
)
from odt.core.model.model import Model
from odt.core.model.record import ENTRY, Record
from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array
from odt.schemas.tflite_metadata import IDENTIFIER

LABELS = "odt-labels.txt"
AUTHOR = "odt"  # of metadata that odt wrote, and so may write again
PARSER = "1.0.0"  # least version of a metadata parser that knows the fields used here
SCALES = {"0..1": (0.0, 255.0), "-1..1": (127.5, 127.5)}  # scale → mean and std
MAX_PIXEL = 255.0


@dataclass(frozen=True, slots=True)
class RecordEntries:
    """Metadata to add to a model file.

    Attributes:
        entries: metadata name → bytes.
        archive: zip archive to append to the file; empty for none.
    """

    entries: Mapping[str, bytes]
    archive: bytes = b""


def record_entries(model: Model, record: Record, file_format: str) -> RecordEntries:
    """Returns the entries that a record adds to a model; those of other authors stay.

    Args:
        model: the model.
        record: the record.
        file_format: format of the new file; only tflite has TFLite Model Metadata.
    """
    entries = {ENTRY: record.to_bytes()}
    old = read_metadata(model)
    foreign = NAME in model.metadata and (old is None or old.get("author") != AUTHOR.encode())
    if file_format != "tflite" or foreign:
        return RecordEntries(entries)
    entries[NAME] = encode_metadata(_tables(model, record))
    labels, old_labels = label_file(record.names), associated_file(model, LABELS)
    # A second archive would hide the first.
    has_other_archive = not old_labels and appended_archive(model.data)
    if not _labeled_outputs(model, record) or labels == old_labels or has_other_archive:
        return RecordEntries(entries)
    return RecordEntries(entries, zip_archive({LABELS: labels}))


def differing_normalization(model: Model, record: Record) -> tuple[str, str] | None:
    """Returns the normalization in TFLite Model Metadata of others, and a record's, if they differ.

    Both are texts for messages; None if they agree, or there is no such metadata.
    """
    content = read_metadata(model) or {}
    graph = (content.get("subgraph_metadata") or [{}])[0]
    tensors = graph.get("input_tensor_metadata") or []
    if content.get("author") == AUTHOR.encode() or not tensors:
        return None
    mean, std = normalization(tensors[0])
    new = _normalization(record)
    if not mean or not std or (_same(mean, new[0]) and _same(std, new[1])):
        return None
    return _text(mean, std), _text(*new)


def _same(a: Any, b: Any) -> bool:
    a, b = np.atleast_1d(a), np.atleast_1d(b)
    return (min(a.size, b.size) == 1 or a.size == b.size) and np.allclose(a, b, 1e-3, 1e-3)


def _text(mean: Any, std: Any) -> str:
    parts = (",".join(f"{x:g}" for x in np.atleast_1d(values)[:4]) for values in (mean, std))
    return "mean {} and std {}".format(*parts)


def _normalization(record: Record) -> tuple[Array, Array]:
    """Mean and std that make the input of the raw values, 0 … 255 for pictures."""
    offset, factor = np.zeros(1), np.ones(1)  # x → (x − offset) / factor
    for step in record.steps:
        mean, std = step.get("mean") or [0.0], step.get("std") or [1.0]
        if step["step"] == "scale" and step.get("to") in SCALES:
            mean, std = ([x] for x in SCALES[str(step["to"])])
        elif step["step"] != "mean and std":
            continue
        offset, factor = offset + np.asarray(mean) * factor, factor * np.asarray(std)
    return offset, factor


def _tables(model: Model, record: Record) -> dict[str, Any]:
    """Returns the tables of TFLite Model Metadata."""
    graph = model.graph
    mean, std = _normalization(record)
    inputs = [_input(record, mean, std) if i == 0 else {} for i in range(len(graph.inputs))]
    for tensor, i in zip(inputs, graph.inputs, strict=True):
        tensor["name"] = graph.tensors[i].name
    outputs: list[dict[str, Any]] = [{"name": graph.tensors[i].name} for i in graph.outputs]
    for k in _labeled_outputs(model, record)[:1]:
        outputs[k]["associated_files"] = [labels_entry()]
    if record.boxes:  # `replace_head` has named the classes of a detector
        graphs = (read_metadata(model) or {}).get("subgraph_metadata") or [{}]
        outputs = graphs[0].get("output_tensor_metadata") or outputs
    subgraph = {"input_tensor_metadata": inputs, "output_tensor_metadata": outputs}
    return {"author": AUTHOR, "subgraph_metadata": [subgraph], "min_parser_version": PARSER}


def _input(record: Record, mean: Array, std: Array) -> dict[str, Any]:
    """TensorMetadata of the input."""
    kind = "ImageProperties" if record.kind == "image" else "FeatureProperties"
    properties: dict[str, Any] = {}
    tensor: dict[str, Any] = {
        "content": {
            "content_properties_type": code_of("ContentProperties", kind),
            "content_properties": properties,
        },
        "process_units": [
            {
                "options_type": code_of("ProcessUnitOptions", "NormalizationOptions"),
                "options": {"mean": mean, "std": std},
            }
        ],
    }
    if record.kind == "image":
        gray = any(s["step"] == "color" and s.get("to") == "grayscale" for s in record.steps)
        properties["color_space"] = code_of("ColorSpaceType", "GRAYSCALE" if gray else "RGB")
        tensor["stats"] = {"max": (MAX_PIXEL - mean) / std, "min": -mean / std}
    return tensor


def _labeled_outputs(model: Model, record: Record) -> list[int]:
    """Returns the outputs whose last axis has a value for each class."""
    shapes = [model.graph.tensors[i].spec.shape for i in model.graph.outputs]
    count = len(record.names)
    return [k for k, shape in enumerate(shapes) if count and shape and shape[-1] == count]


def labels_entry(kind: str = "TENSOR_AXIS_LABELS") -> dict[str, Any]:
    """The table of the file with the class names; `kind` is its AssociatedFileType."""
    return {
        "name": LABELS,
        "description": "Class names, one a line.",
        "type": code_of("AssociatedFileType", kind),
    }


def label_file(classes: Sequence[str]) -> bytes:
    """The file with the class names."""
    lines = (" ".join(name.splitlines()) + "\n" for name in classes)
    return "".join(lines).encode("utf-8", "backslashreplace")


def encode_metadata(tables: Mapping[str, Any]) -> bytes:
    """The flatbuffer of TFLite Model Metadata."""
    import flatbuffers

    builder = flatbuffers.Builder(1024)
    builder.Finish(pack(builder, "ModelMetadata", tables), IDENTIFIER)
    return bytes(builder.Output())


def zip_archive(files: Mapping[str, bytes]) -> bytes:
    """Returns a zip archive of files by name; no bytes for no files."""
    import zipfile

    if not files:
        return b""

    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # without a date: the same bytes again
    return data.getvalue()
