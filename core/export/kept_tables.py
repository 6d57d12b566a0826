"""Writes a model that keeps some operators of another one, without what only the others need."""

from collections.abc import Collection
from typing import Any

import flatbuffers
import numpy as np

from odt.core.model.flatbuffer import FlatBuffer
from odt.core.model.operator_versions import raise_versions
from odt.core.model.own_activations import split_fused_tanh
from odt.core.model.reader import FORMATS, Model
from odt.core.model.schema_tables import pack, unpack
from odt.errors import ModelError, UnsupportedError
from odt.kernels.opdef import Array

MOST_BYTES = 2**31 - 2**24  # limit of a flatbuffer, with space for its tables
TENSOR_LISTS = ("inputs", "outputs", "intermediates")  # of an operator


class KeptTables:
    """The tables of a model's first subgraph with some of its operators.

    Attributes:
        source: the model.
        model: table Model of the schema, as `unpack` gives it.
        graph: the subgraph's table; the others are for control flow, which odt does not support.
        number: old number of each kept tensor → new number.
    """

    def __init__(self, source: Model, positions: Collection[int], tensors: Collection[int]) -> None:
        """Keeps operators; renumbers tensors, buffers and operator codes.

        Args:
            source: the model.
            positions: positions of the operators in the file.
            tensors: further tensors to keep.

        Raises:
            ModelError: if an operator's tensor does not exist.
        """
        self.source = source
        self.model: dict[str, Any] = unpack(FlatBuffer(source.path, source.data).root(), "Model")
        self.graph = self.model["subgraphs"][0]
        self.model["subgraphs"] = [self.graph]
        self.model.pop("metadata_buffer", None)  # as metadata, without names
        operators = [self.graph["operators"][k] for k in sorted(positions)]
        lists = [o[name] for o in operators for name in TENSOR_LISTS if name in o]
        used = {*tensors, *(int(i) for numbers in lists for i in numbers)} - {-1}
        count = len(self.graph["tensors"])
        if not used <= set(range(count)):
            raise ModelError(
                f"{source.path}: an operator's tensors must be below {count}, "
                f"but got {max(used - set(range(count)))}"
            )
        self.number = {i: k for k, i in enumerate(sorted(used))} | {-1: -1}
        self._renumber(operators)

    def _renumber(self, operators: list[dict[str, Any]]) -> None:
        graph, model, used = self.graph, self.model, sorted(self.number.keys() - {-1})
        graph["tensors"] = [graph["tensors"][i] for i in used]
        graph["inputs"] = [self.number[int(i)] for i in graph.get("inputs", ()) if i in used]
        graph["operators"] = operators
        buffers = sorted({0, *(t.get("buffer", 0) for t in graph["tensors"])})
        codes = sorted({o.get("opcode_index", 0) for o in operators})
        for tensor in graph["tensors"]:
            tensor["buffer"] = buffers.index(tensor.get("buffer", 0))
        for o in operators:
            o["opcode_index"] = codes.index(o.get("opcode_index", 0))
            for name in TENSOR_LISTS:
                if name in o:
                    o[name] = [self.number[int(i)] for i in o[name]]
        spans = self.source.spans or ((0, 0),)
        model["buffers"] = [
            buffer_entry(self.source.data[at : at + n]) for at, n in map(spans.__getitem__, buffers)
        ]
        model["operator_codes"] = [model["operator_codes"][k] for k in codes]

    def buffer(self, data: bytes) -> int:
        """Adds a buffer; returns its number."""
        self.model["buffers"].append(buffer_entry(data))
        return len(self.model["buffers"]) - 1

    def metadata(self, entries: dict[str, bytes]) -> None:
        """Replaces all metadata."""
        self.model["metadata"] = [
            {"name": name, "buffer": self.buffer(data)} for name, data in entries.items()
        ]


def model_tables(model: Model) -> dict[str, Any]:
    """Table Model of a file, with the bytes of its buffers, also of those beyond 2 GiB."""
    tables = unpack(FlatBuffer(model.path, model.data).root(), "Model")
    buffers = [buffer_entry(model.data[at : at + n]) for at, n in model.spans]
    tables["buffers"] = buffers or [{}]
    return tables


def buffer_entry(data: bytes | memoryview | Array) -> dict[str, Any]:
    """Table Buffer with bytes, or with those of an array in the file's byte order."""
    if isinstance(data, np.ndarray):
        little = np.ascontiguousarray(data, data.dtype.newbyteorder("<"))
        data = little.reshape(-1).view(np.uint8).data
    return {"data": np.frombuffer(data, np.uint8)} if len(data) else {}


def packed_model(source: Model, tables: dict[str, Any]) -> bytes:
    """Serialises the tables of a model, so that runtimes compute it as it is meant.

    Versions of operators are raised to what they need, and fused TANHs get operators of their own.

    Args:
        source: model with the format of the new one, and the name in messages.
        tables: table Model of the schema, as `unpack` gives it.

    Raises:
        UnsupportedError: if the file would be too large.
    """
    split_fused_tanh(tables)
    raise_versions(tables)
    builder = flatbuffers.Builder(1024)
    identifier = next(i for i, name in FORMATS.items() if name == source.format)
    try:
        builder.Finish(pack(builder, "Model", tables), identifier)
    except flatbuffers.builder.BuilderSizeError as e:
        raise UnsupportedError(
            f"{source.path}: the new model must be below {MOST_BYTES} bytes, but got more"
        ) from e
    return bytes(builder.Output())
