"""Edits that convert model files between Circle and TFLite.

The formats have the same tables. They differ in identifier, version and in what they can hold.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence

from odt.core.formats.flatbuffer.flatbuffer import CIRCLE, IDENTIFIERS, FlatBuffer, Table
from odt.core.formats.flatbuffer.flatbuffer_edit import (
    NewBuffer,
    NewTable,
    Patch,
    absolute_offsets,
    add_buffers,
    buffer_table,
    front,
    original,
)
from odt.core.formats.flatbuffer.metadata_edit import Edit, edit_metadata
from odt.core.formats.flatbuffer.operator_options import operator_name
from odt.core.formats.flatbuffer.operator_versions import builtin_code
from odt.core.formats.flatbuffer.schema_tables import code_of, name_of, unpack
from odt.core.formats.flatbuffer.slots import (
    BufferSlot,
    FullyConnectedOptionsSlot,
    ModelSlot,
    OperatorSlot,
    QuantizationParametersSlot,
    SubGraphSlot,
    TensorSlot,
)
from odt.core.model.model import Model
from odt.errors import ModelError

IDENTIFIER_AT = 4  # offset of the identifier in a file
TFLITE_VERSION = 3  # LiteRT loads no other version; Circle files have 0
CUSTOM_QUANTIZATION = 1  # of QuantizationDetails; others are unknown
FULLY_CONNECTED = code_of("BuiltinOperator", "FULLY_CONNECTED")
SHUFFLED16X1FLOAT32 = 127  # a layout of weights that only Circle has


def format_edit(
    model: Model,
    file_format: str,
    new_buffers: Sequence[NewBuffer] = (),
    entries: Mapping[str, bytes | None] | None = None,
) -> Edit:
    """Returns the edit that converts a model to a format.

    Args:
        model: the model.
        file_format: circle or tflite.
        new_buffers: new buffers for some tensors.
        entries: new metadata entries.

    Raises:
        ModelError: if the model has something that the format cannot hold.
    """
    if file_format == model.format and not new_buffers and not entries:
        return Edit(b"", 0, [])
    source = FlatBuffer(model.path, model.data)
    root = source.root()
    identifier = IDENTIFIERS[file_format]
    patches: list[Patch] = []
    version: int | None = None
    absent = set[int]()  # buffers without data
    if file_format != model.format:
        _check_conversion(model, root, file_format)
        begin, _ = original(source)
        patches += [(at + IDENTIFIER_AT, identifier) for at in {0, begin}]
        if file_format == "tflite":
            version = TFLITE_VERSION
            absent = _empty_buffers(model, root)
    if entries:
        edit = edit_metadata(model, entries, identifier, new_buffers, version, frozenset(absent))
        return Edit(edit.front, edit.begin, patches + edit.patches)
    place = root.place(ModelSlot.VERSION, 4)
    if version is not None and place:
        patches.append((place, struct.pack("<I", version)))
    vectors: dict[int, list[int | NewTable]] = {}
    if new_buffers or absent:
        buffers: list[int | NewTable] = [
            buffer_table(b"") if k in absent else table.pos
            for k, table in enumerate(root.tables(ModelSlot.BUFFERS, "buffer"))
        ]
        patches += add_buffers(root, buffers, new_buffers)
        vectors[ModelSlot.BUFFERS] = buffers
    if (version is None or place) and not vectors:
        return Edit(b"", 0, patches)
    before = front(0, root, identifier, version, vectors, lasting=bool(vectors))
    return Edit(before, 0, patches + absolute_offsets(root, len(before)))


def _empty_buffers(model: Model, root: Table) -> set[int]:
    """Returns buffers of activations with an empty data field, which LiteRT mistakes for constants.

    A constant without elements keeps its buffer, and LiteRT ignores buffer 0.
    """
    empty = {
        k
        for k, table in enumerate(root.tables(ModelSlot.BUFFERS, "buffer"))
        if k and table.target(BufferSlot.DATA) and model.spans[k] == (0, 0)
    }
    if not empty:
        return empty
    activations: set[int] = set()
    for graph in root.tables(ModelSlot.SUBGRAPHS, "subgraph"):
        for table in graph.tables(SubGraphSlot.TENSORS, "tensor", f"{graph.where}, "):
            buffer = table.number(TensorSlot.BUFFER, "I")
            if buffer in empty and 0 not in table.numbers(TensorSlot.SHAPE, "shape"):
                activations.add(buffer)
    return activations


def _check_conversion(model: Model, root: Table, file_format: str) -> None:
    """Raises ModelError with everything in all subgraphs that the other format cannot hold."""
    problems = []
    codes: list[int] = []
    for table in root.tables(ModelSlot.OPERATOR_CODES, "operator code"):
        code = builtin_code(unpack(table, "OperatorCode"))
        codes.append(code)
        if code < 0 and file_format == "tflite":
            problems.append(f"{table.where} ({operator_name(code)})")
    for graph in root.tables(ModelSlot.SUBGRAPHS, "subgraph"):
        for table in graph.tables(SubGraphSlot.TENSORS, "tensor", f"{graph.where}, "):
            problems += _tensor_problems(table, file_format)
        for table in graph.tables(SubGraphSlot.OPERATORS, "operator", f"{graph.where}, "):
            options = table.table(OperatorSlot.BUILTIN_OPTIONS, "options")
            index = table.number(OperatorSlot.OPCODE_INDEX, "I")
            if options is None or index >= len(codes) or codes[index] != FULLY_CONNECTED:
                continue
            layout = options.number(FullyConnectedOptionsSlot.WEIGHTS_FORMAT, "b")
            if layout == SHUFFLED16X1FLOAT32 and file_format == "tflite":
                problems.append(f"{table.where} (weights format SHUFFLED16x1FLOAT32)")
    if problems:
        raise ModelError(
            f"{model.path}: must hold only what {file_format} files have, "
            f"but got {', '.join(problems)}. Export as {model.format}."
        )


def _tensor_problems(table: Table, file_format: str) -> Iterator[str]:
    """Yields what a tensor has and the other format cannot hold."""
    code, schema = table.number(TensorSlot.TYPE, "b"), table.source.schema
    kind = name_of("TensorType", code, schema)
    if name_of("TensorType", code, file_format) != kind:
        yield f"{table.where} ({kind})"
    elif schema == CIRCLE and table.number(TensorSlot.COMPRESSION_TYPE, "b"):
        yield f"{table.where} (compressed)"
    scales = table.table(TensorSlot.QUANTIZATION, "quantization")
    details = scales.number(QuantizationParametersSlot.DETAILS_TYPE, "B") if scales else 0
    if details > CUSTOM_QUANTIZATION:
        yield f"{table.where} (quantization details {details})"
