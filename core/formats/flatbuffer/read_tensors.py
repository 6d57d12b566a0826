"""Reads the tensors of a subgraph: shapes, types, constants and quantization."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from odt.core.formats.flatbuffer.flatbuffer import CIRCLE, DAMAGED, TFLITE, Table
from odt.core.formats.flatbuffer.schema_tables import name_of, unknown_code
from odt.core.formats.flatbuffer.slots import QuantizationParametersSlot, SubGraphSlot, TensorSlot
from odt.core.model.graph import MAX_AXES, MAX_BYTES, MAX_NAME, Tensor
from odt.errors import one_line
from odt.kernels.geometry.quantize import Quantization
from odt.kernels.rows.opdef import Array, TensorSpec

if TYPE_CHECKING:
    from odt.core.model.sparsity import Sparsity

Spans = tuple[tuple[int, int], ...]  # offset and size of each buffer in the file
DTYPES = {
    name.upper(): np.dtype(name)
    for name in (
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
        "bool",
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    )
}
# QuantizationDetails with scales in another tensor.
BLOCKWISE = ("BlockwiseQuantization", "MultiAxisQuantization")
SPARSE = {f"SPARSE_{kind}": DTYPES[kind] for kind in ("FLOAT16", "FLOAT32", "INT8")}


def below(table: Table, index: int, what: str, count: int) -> int:
    """Returns an index, checked against a number of entries."""
    if not 0 <= index < count:
        raise table.error(f"{what} must be below {count}, but got {index}")
    return index


def read_tensors(
    graph: Table, spans: Spans
) -> tuple[list[Tensor], dict[int, Quantization], "dict[int, Sparsity]"]:
    """Reads the tensors of a subgraph, and quantization and sparsity of those that have one.

    Args:
        graph: table of the subgraph.
        spans: (offset, size) in the file of each buffer.

    Raises:
        ModelError: if a tensor breaks a rule of the format, or its values are in another file.
    """
    tensors: list[Tensor] = []
    quantization: dict[int, Quantization] = {}
    sparsity: dict[int, Sparsity] = {}
    external: dict[int, int] = {}  # tensor → number of its external buffer
    blockwise: list[tuple[int, Table, str]] = []  # tensor, its parameters, kind of details
    for i, table in enumerate(graph.tables(SubGraphSlot.TENSORS, "tensor")):
        name = table.string(TensorSlot.NAME, "name")
        if name:
            table.where += f' ("{one_line(name, MAX_NAME)}")'
        signature, spec = _spec(table)
        parameters = table.table(TensorSlot.QUANTIZATION, "quantization")
        scales = None
        if parameters is not None:
            kind = _details(parameters)
            if kind in BLOCKWISE:
                blockwise.append((i, parameters, kind))
            else:
                scales = _quantization(parameters, spec)
        if scales is not None:
            quantization[i] = scales
        if table.source.schema == TFLITE and table.number(TensorSlot.EXTERNAL_BUFFER, "I"):
            external[i] = table.number(TensorSlot.EXTERNAL_BUFFER, "I")
        buffer = below(table, table.number(TensorSlot.BUFFER, "I"), "buffer", max(len(spans), 1))
        data = _constant(table, spec, spans[buffer]) if buffer < len(spans) else None
        (kind,) = spec.dtype.names or ("",)  # name of a type that NumPy lacks; see _spec
        dtype = SPARSE.get(kind)
        if dtype is not None and data is not None:
            from odt.core.formats.flatbuffer.read_sparsity import read_sparsity

            sparsity[i] = read_sparsity(table, spec.shape, dtype, data.nbytes)
        tensors.append(
            Tensor(
                name=name,
                spec=spec,
                signature=signature,
                data=data,
                buffer=buffer,
                quantized=scales is not None,
                variable=bool(table.number(TensorSlot.IS_VARIABLE, "b")),
            )
        )
    if external:
        from odt.core.formats.flatbuffer.external_buffers import external_error

        raise external_error(graph, tensors, external)
    if blockwise:  # few files have them
        from odt.core.formats.flatbuffer.block_scales import read_block_scales
    for i, parameters, kind in blockwise:
        quantization[i] = read_block_scales(parameters, kind, tensors[i], tensors)
        tensors[i] = replace(tensors[i], quantized=True)
    return tensors, quantization, sparsity


def _spec(table: Table) -> tuple[tuple[int, ...], TensorSpec]:
    """Returns the shape with −1 for open entries, and the spec with 1 for them.

    A type that NumPy lacks becomes a dtype of one opaque byte with a field of that name.
    """
    shape = table.numbers(TensorSlot.SHAPE, "shape")
    signature = table.numbers(TensorSlot.SHAPE_SIGNATURE, "shape signature") or shape
    if len(signature) != len(shape):
        raise table.error(
            f"shape and shape signature must have the same length, but got {shape} and {signature}"
        )
    if len(shape) > MAX_AXES or min((*shape, *signature), default=0) < -1:
        raise table.error(
            f"shape must have at most {MAX_AXES} entries, none below -1, "
            f"but got {len(shape)}: {shape[:8]}, signature {signature[:8]}"
        )
    sizes = shape
    if min(shape, default=0) < 0:
        sizes = tuple(1 if n < 0 else n for n in shape)
        signature = tuple(-1 if n < 0 else s for n, s in zip(shape, signature, strict=True))
    schema = table.source.schema
    code = table.number(TensorSlot.TYPE, "b")
    kind = name_of("TensorType", code, schema)
    if kind is None:
        text = f"type must be one of the schema, but got code {code}"
        raise unknown_code(table, code, text)
    if table.place(TensorSlot.SPARSITY, 4):
        kind = f"SPARSE_{kind}"
    if schema == CIRCLE and table.number(TensorSlot.COMPRESSION_TYPE, "b"):
        kind = f"COMPRESSED_{kind}"
    dtype = DTYPES.get(kind) or np.dtype([(kind, "V1")])
    if math.prod(n for n in sizes if n) * dtype.itemsize > MAX_BYTES:
        raise table.error(f"a tensor must fit into {MAX_BYTES} bytes, but got {shape} {kind}")
    return signature, TensorSpec(sizes, dtype)


def _constant(table: Table, spec: TensorSpec, span: tuple[int, int]) -> Array | None:
    """Views the buffer's bytes as an array of the tensor's shape and dtype."""
    offset, size = span
    if not size:
        return None
    data = table.source.data
    if spec.dtype.kind == "V":
        return np.frombuffer(data, np.uint8, size, offset)
    if spec.nbytes != size:
        buffer = table.number(TensorSlot.BUFFER, "I")
        raise table.error(
            f"its {spec} needs {spec.nbytes} bytes, but buffer {buffer} has {size}",
            "The buffer is larger than its tensor." if size > spec.nbytes else DAMAGED,
        )
    if offset % spec.dtype.itemsize:  # kernels need aligned arrays; writers align to 16 bytes
        copy = np.frombuffer(data[offset : offset + size].tobytes(), spec.dtype)
        return copy.reshape(spec.shape)
    return np.frombuffer(data, spec.dtype, spec.size, offset).reshape(spec.shape)


def _details(parameters: Table) -> str:
    """Returns the kind of the details of a quantization."""
    code = parameters.number(QuantizationParametersSlot.DETAILS_TYPE, "B")
    kind = name_of("QuantizationDetails", code, parameters.source.schema)
    if kind is None:
        text = f"details must be of the schema, but got type {code}"
        raise unknown_code(parameters, code, text)
    return kind


def _quantization(details: Table, spec: TensorSpec) -> Quantization | None:
    """Reads the quantization of a tensor; None without a scale: converters also store ranges.

    Older converters store the axis of the weights with the vector of their biases.
    """
    scale = details.array(QuantizationParametersSlot.SCALE, "<f4", "scale")
    if not len(scale):
        return None
    zero_point = details.array(QuantizationParametersSlot.ZERO_POINT, "<i8", "zero point")
    if len(zero_point) not in (0, len(scale)):
        raise details.error(
            f"scale and zero point must have the same length, but got {len(scale)} and "
            f"{len(zero_point)}"
        )
    zero_point = zero_point if len(zero_point) else np.zeros(len(scale), np.int64)
    axis = details.number(QuantizationParametersSlot.QUANTIZED_DIMENSION, "i")
    axis = axis if len(spec.shape) != 1 else 0
    return Quantization(scale, zero_point, axis)
