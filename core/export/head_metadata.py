"""Metadata of a model with a new head: facts about the inputs stay, class names change.

TFLite Model Metadata keeps everything except facts about outputs; files in the zip archive at the
end of the model stay if it still names them. odt's preprocessing record gets the new class names.
Training info, which numbers the operators of the old model, is removed. Other entries stay.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from odt.core.export.record_metadata import (
    AUTHOR,
    LABELS,
    PARSER,
    encode_metadata,
    label_file,
    labels_entry,
    zip_archive,
)
from odt.core.formats.flatbuffer.tflite_metadata import (
    NAME,
    associated_file,
    associated_files,
    label_files,
    read_metadata,
)
from odt.core.model.model import Model
from odt.core.model.record import ENTRY, parse_record
from odt.core.model.training_info import METADATA_NAME

OWN = {"author": AUTHOR, "min_parser_version": PARSER}  # fields of new TFLite Model Metadata


def holds_names(model: Model) -> bool:
    """Whether a model with a new head has a place for the names of its classes."""
    return model.format == "tflite" or ENTRY in model.metadata or read_metadata(model) is not None


def kept_metadata(
    model: Model,
    inputs: Sequence[int],
    output: str,
    names: Sequence[str],
    *,
    tags: bool = False,
    begins: bool = False,
) -> tuple[dict[str, bytes], bytes]:
    """Returns the metadata of a model with one new output.

    Args:
        model: the old model.
        inputs: positions of the inputs that stay.
        output: name of the new output.
        names: names of the values of the new output; empty if they are not known.
        tags: whether they name tags, of which a sample may have several, instead of classes.
        begins: whether a TFLite file without TFLite Model Metadata gets them for the names.

    Returns:
        Bytes of each entry by name; and a zip archive for the end of the file, empty for none,
        whose offsets count from its beginning.

    Raises:
        DataError: if odt's preprocessing record is damaged.
    """
    entries = {
        name: bytes(model.buffer(index))
        for name, index in model.metadata.items()
        if name not in (METADATA_NAME, NAME)
    }
    if ENTRY in entries:
        record = parse_record(model.path, entries[ENTRY])
        new_classes, new_tags = ((), tuple(names)) if tags else (tuple(names), ())
        entries[ENTRY] = replace(record, classes=new_classes, tags=new_tags, loss="").to_bytes()
    content = read_metadata(model)
    if content is None:
        if not (begins and names and model.format == "tflite"):
            return entries, b""
        content = {**OWN, "subgraph_metadata": [{}]}
    for graph in content.get("subgraph_metadata", [])[:1]:
        graph.pop("output_process_units", None)
        tensors = graph.get("input_tensor_metadata", [])
        graph["input_tensor_metadata"] = [tensors[k] for k in inputs if k < len(tensors)]
        labels = {"associated_files": [labels_entry()]} if names else {}
        graph["output_tensor_metadata"] = [{"name": output, **labels}]
    entries[NAME] = encode_metadata(content)
    file_names = (name.decode("utf-8", "replace") for name in _file_names(content))
    files = {name: associated_file(model, name) for name in file_names}
    if names:
        files[LABELS] = label_file(names)
    return entries, zip_archive({name: data for name, data in files.items() if data})


def relabeled_metadata(
    model: Model,
    output: int,
    names: Sequence[str],
    columns: int,
    background: int,
    *,
    has_columns: bool,
) -> tuple[dict[str, bytes], bytes | None]:
    """Returns the metadata of a model whose outputs stay and get other class names.

    A file of class names keeps its name, and its first line if that is the background's.

    Args:
        model: the old model.
        output: position of the output that the class names belong to.
        names: names of the new classes.
        columns: number of old classes, with the background.
        background: how many of them are the background: 1 or 0.
        has_columns: whether the output has a column for each class, instead of class numbers.

    Returns:
        Bytes of each entry that changes, by name; and a zip archive as `kept_metadata` returns it,
        None for that of the old model.

    Raises:
        DataError: if odt's preprocessing record is damaged.
    """
    entries = {}
    if ENTRY in model.metadata:
        record = parse_record(model.path, bytes(model.buffer(model.metadata[ENTRY])))
        entries[ENTRY] = replace(record, classes=tuple(names), loss="").to_bytes()
    if model.format != "tflite":
        return entries, None
    content = read_metadata(model) or dict(OWN)
    graphs = content.setdefault("subgraph_metadata", [])
    if not graphs:
        graphs.append({})
    tensors = graphs[0].setdefault("output_tensor_metadata", [])
    tensors += [{"name": model.graph.tensors[i].name} for i in model.graph.outputs[len(tensors) :]]
    files = associated_files(model)
    labels = [*label_files(tensors)]
    if not labels:
        kind = "TENSOR_AXIS_LABELS" if has_columns else "TENSOR_VALUE_LABELS"
        tensors[output].setdefault("associated_files", []).append(labels_entry(kind))
        entries[NAME] = encode_metadata(content)
        labels = [LABELS]
    for name in labels:
        old = files.get(name, b"").decode("utf-8", "replace").splitlines()
        new = ["background"] if has_columns else []
        first = old if len(old) == columns else new
        files[name] = label_file([*first[:background], *names])
    return entries, zip_archive(files)


def _file_names(content: Any) -> Iterator[bytes]:
    """Yields the names of the associated files in tables of TFLite Model Metadata."""
    if isinstance(content, list):
        for item in content:
            yield from _file_names(item)
    elif isinstance(content, Mapping):
        for name, value in content.items():
            if name in ("associated_files", "vocab_file", "sentencePiece_model"):
                yield from (file["name"] for file in value if isinstance(file.get("name"), bytes))
            else:
                yield from _file_names(value)
