"""The tables of a model file as dictionaries, and files with such tables."""

from typing import Any

import numpy as np

from odt.core.formats.flatbuffer.appended_zip import appended_archive, shift_archive
from odt.core.formats.flatbuffer.flatbuffer import IDENTIFIERS, FlatBuffer
from odt.core.formats.flatbuffer.operator_versions import raise_versions
from odt.core.formats.flatbuffer.own_activations import split_fused_tanh
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.flatbuffer.schema_tables import pack, unpack
from odt.core.model.model import Model
from odt.core.recipe.interface import resized
from odt.errors import UnsupportedError
from odt.kernels.rows.opdef import Array

MAX_BYTES = 2**31 - 2**24  # limit of a flatbuffer, with space for its tables


def model_tables(model: Model) -> dict[str, Any]:
    """Returns table Model of a file, with the bytes of its buffers, also of those beyond 2 GiB."""
    tables = unpack(FlatBuffer(model.path, model.data).root(), "Model")
    buffers = [buffer_entry(model.data[at : at + n]) for at, n in model.spans]
    tables["buffers"] = buffers or [{}]
    return tables


def buffer_entry(data: bytes | memoryview | Array) -> dict[str, Any]:
    """Returns table Buffer with bytes, or with those of an array in the file's byte order."""
    if isinstance(data, np.ndarray):
        little = np.ascontiguousarray(data, data.dtype.newbyteorder("<"))
        data = little.reshape(-1).view(np.uint8).data
    return {"data": np.frombuffer(data, np.uint8)} if len(data) else {}


def packed_model(source: Model, tables: dict[str, Any], archive: bytes | None = None) -> bytes:
    """Serializes the tables of a model, so that runtimes compute it as it is meant.

    Versions of operators are raised to what they need, and fused TANHs get operators of their own.

    Args:
        source: model with the format of the new one, and the name in messages.
        tables: table Model of the schema, as `unpack` gives it.
        archive: zip archive for the end of the file, with offsets that count from its beginning,
            empty for none; None for that of the source.

    Raises:
        UnsupportedError: if the file would be too large.
    """
    import flatbuffers

    split_fused_tanh(tables)
    raise_versions(tables)
    builder = flatbuffers.Builder(1024)
    try:
        builder.Finish(pack(builder, "Model", tables, source.format), IDENTIFIERS[source.format])
    except flatbuffers.builder.BuilderSizeError as e:
        raise UnsupportedError(
            f"{source.path}: the new model must be below {MAX_BYTES} bytes, but got more"
        ) from e
    packed = bytes(builder.Output())
    if archive is None:
        archive = appended_archive(source.data)
    return packed + shift_archive(archive, len(packed)) if archive else packed


def rewritten(source: Model, tables: dict[str, Any]) -> Model:
    """Returns a model with other tables, and the signature and input shapes of the old one.

    Raises:
        UnsupportedError: if the file would be too large.
    """
    packed = memoryview(packed_model(source, tables))
    return resized(parse_model(packed, source.path, source.signature), source.input_shapes)


def drop_unused_buffers(tables: dict[str, Any]) -> None:
    """Empties the buffers that no tensor and no metadata refer to."""
    used = {t.get("buffer", 0) for g in tables["subgraphs"] for t in g["tensors"]}
    used |= {entry.get("buffer", 0) for entry in tables.get("metadata", ())}
    used |= set(map(int, tables.get("metadata_buffer", ())))
    for k in set(range(len(tables["buffers"]))) - used:
        tables["buffers"][k] = {}
