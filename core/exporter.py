"""Writes trained models: new weights in the original bytes, everything else as it was."""

import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from odt.core.circle_plus import Edit, edit_training_info
from odt.core.files import write_atomically
from odt.core.flatbuffer import Source, Table
from odt.core.flatbuffer_edit import (
    SUBGRAPHS,
    VERSION,
    Patch,
    absolute_offsets,
    front,
    original,
    patched,
)
from odt.core.float_weights import removed, with_float_weights
from odt.core.folding import as_stored, fold_weights
from odt.core.options import operator_name, tensor_type
from odt.core.reader import FORMATS, Model
from odt.core.training_info import TrainingInfo, encode_training_info
from odt.errors import ModelError
from odt.kernels.opdef import Array

IDENTIFIERS = {name: identifier for identifier, name in FORMATS.items()}
TFLITE_VERSION = 3  # LiteRT loads no other; Circle files say 0
FULLY_CONNECTED, SHUFFLED16X1FLOAT32 = 9, 127  # a layout of weights that only Circle has


def export_model(
    model: Model,
    parameters: Mapping[int, Array],
    path: str | os.PathLike[str],
    file_format: str | None = None,
    info: TrainingInfo | None = None,
    *,
    float_weights: bool = False,
) -> None:
    """Writes the model with other weights; whole or not at all, also over its own file.

    Args:
        parameters: buffer index → the values of the tensors that name it; float32 for what is
            stored as float16 or int8, which gets new scales.
        file_format: circle or tflite; None for the model's own.
        info: makes the file a circle+; None leaves training info as it is.
        float_weights: writes what is stored as float16 or int8 as float32 instead.

    Raises:
        ModelError: if the format cannot hold the model, or the file cannot be written.
        OptionError: if a circle+ cannot hold the info.
        LostFileError: if the model's own file became shorter.
    """
    source = model
    source.check_file()
    if float_weights:
        model, info = _in_float(model, info)
    file_format = file_format or ("circle" if info else model.format)
    assert info is None or file_format == "circle", "training info is for circle files"
    edit = convert(model, file_format)
    if info is not None:
        data = encode_training_info(info, len(model.graph.nodes))
        plus = edit_training_info(model, data, IDENTIFIERS["circle"])
        edit = Edit(plus.front, plus.begin, edit.patches + plus.patches)
    scales: list[Patch] = []
    if any(values.nbytes != model.spans[buffer][1] for buffer, values in parameters.items()):
        parameters, scales = as_stored(model, fold_weights(model), parameters)
    weights = [_weights(model, buffer, values) for buffer, values in parameters.items()]
    write_atomically(path, _chunks(model, edit, weights + scales, source))


def _in_float(model: Model, info: TrainingInfo | None) -> tuple[Model, TrainingInfo | None]:
    """The model with float32 weights, and the info with the positions its operators then have."""
    folded = fold_weights(model)
    if not folded.stored:
        return model, info
    if info is not None and info.trainable_ops is not None:
        gone = removed(model, folded)
        kept = [k for k in info.trainable_ops if k not in gone]
        info = replace(info, trainable_ops=tuple(k - sum(g < k for g in gone) for k in kept))
    return with_float_weights(model, folded), info


def add_training_info(model: Model, info: TrainingInfo, path: str | os.PathLike[str]) -> None:
    """Writes a circle+ of the model, in place of any training info that it carries."""
    export_model(model, {}, path, "circle", info)


def remove_training_info(model: Model, path: str | os.PathLike[str]) -> None:
    """Writes the model without training info."""
    edit = edit_training_info(model, None, IDENTIFIERS[model.format])
    write_atomically(path, _chunks(model, edit, [], model))


def _chunks(
    model: Model, edit: Edit, weights: list[Patch], source: Model
) -> Iterator[bytes | memoryview]:
    """The file's bytes; fails at the end if what they were made from became shorter meanwhile."""
    yield edit.front
    yield from patched(model.data, [*edit.patches, *weights], edit.begin)
    source.check_file()


def convert(model: Model, file_format: str) -> Edit:
    """The model in another format: identifier, version, and a look at all that it holds."""
    if file_format == model.format:
        return Edit(b"", 0, [])
    source = Source(model.path, model.data)
    root = source.root()
    _refuse_losses(model, root, file_format)
    identifier = IDENTIFIERS[file_format]
    patches: list[Patch] = [(at, identifier) for at in {4, original(source)[0] + 4}]
    if file_format == "circle":
        return Edit(b"", 0, patches)
    version = root.place(VERSION, 4)
    if version:
        return Edit(b"", 0, [*patches, (version, struct.pack("<I", TFLITE_VERSION))])
    before = front(0, root, identifier, version=TFLITE_VERSION)
    return Edit(before, 0, patches + absolute_offsets(root, len(before)))


def _weights(model: Model, buffer: int, values: Array) -> Patch:
    offset, size = model.spans[buffer]
    assert values.nbytes == size, f"buffer {buffer} has {size} bytes, not {values.nbytes}"
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return offset, little.reshape(-1).view(np.uint8).data


def _refuse_losses(model: Model, root: Table, file_format: str) -> None:
    """Names what the other format has no place for, in all subgraphs."""
    problems = []
    for table in root.tables(1, "operator code"):
        code = min(table.number(0, "b"), table.number(3, "i"))
        if code < 0 and file_format == "tflite":
            problems.append(f"{table.where} ({operator_name(code)})")
    codes = [max(t.number(0, "b"), t.number(3, "i")) for t in root.tables(1, "operator code")]
    for graph in root.tables(SUBGRAPHS, "subgraph"):
        for table in graph.tables(0, "tensor", f"{graph.where}, "):
            code = table.number(1, "b")
            if (code < 0 or table.number(10, "b")) and file_format == "tflite":
                kind = "compressed" if code >= 0 else tensor_type(code)
                problems.append(f"{table.where} ({kind})")
            scales = table.table(4, "quantization")
            if scales is not None and scales.number(4, "B") > 1:
                problems.append(f"{table.where} (quantization details {scales.number(4, 'B')})")
        for table in graph.tables(3, "operator", f"{graph.where}, "):
            options = table.table(4, "options")
            index = table.number(0, "I")
            if options is None or index >= len(codes) or codes[index] != FULLY_CONNECTED:
                continue
            if options.number(1, "b") == SHUFFLED16X1FLOAT32 and file_format == "tflite":
                problems.append(f"{table.where} (weights format SHUFFLED16x1FLOAT32)")
    if problems:
        raise ModelError(
            f"{model.path}: must hold only what {file_format} files have, "
            f"but got {', '.join(problems)}. Export as {model.format}."
        )
