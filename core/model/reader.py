"""Parses and checks model files: bytes → Graph. All models are read here.

TFLite and Circle files have the same tables with the same slots; Circle has more operators and
tensor types. The file is checked here once and completely: for any bytes, the result is a Model or
one ModelError, within a second.
"""

import math
import mmap
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from odt.core.model.flatbuffer import DAMAGED, FlatBuffer, Table
from odt.core.model.graph import MOST_AXES, MOST_BYTES, MOST_NAME, Graph, Node, Tensor
from odt.core.model.nnpackage import packaged_model
from odt.core.model.operator_options import operator_name, read_options, tensor_type
from odt.core.model.sparsity import Sparsity, read_sparsity
from odt.core.model.topological_order import topological_order
from odt.core.model.variables import INITIALIZE, Key, Variable, assigned_values
from odt.core.storage.mapped_files import map_or_read, mapped_file
from odt.dataclass import dataclass
from odt.errors import ModelError, one_line
from odt.kernels.geometry.quantize import Quantization
from odt.kernels.opdef import Array, TensorSpec

FORMATS = {b"TFL3": "tflite", b"CIR0": "circle"}

DTYPES = {
    name.upper(): np.dtype(name)
    for name in (
        *("float16", "float32", "float64", "complex64", "complex128", "bool"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    )
}
SPARSE_FLOATS = {f"SPARSE_{kind}": DTYPES[kind] for kind in ("FLOAT16", "FLOAT32")}


@dataclass(frozen=True, slots=True)
class Signature:
    """A named entry of the model: argument names → tensor indices of a subgraph."""

    key: str
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    subgraph: int


@dataclass(frozen=True, slots=True)
class Model:
    """A checked model file.

    Attributes:
        path: path as given; messages begin with it.
        format: circle or tflite, by the file identifier.
        data: all bytes, read-only; constants are views of them.
        graph: subgraph 0, including its constants.
        metadata: name → buffer index.
        spans: (offset, size) in the file of each buffer; (0, 0) for an empty buffer.
        quantization: tensor index → quantization, for quantized tensors.
        sparsity: tensor index → sparsity, for sparse constants of float16 or float32, whose data in
            the graph are bytes.
        signatures: signatures of all subgraphs.
        subgraphs: number of subgraphs; those after 0 are bodies of control flow or other entries.
        description, version: as in the file.
        variables: container and name of a variable → its initial value.
        sequence_length: time steps in a sample; None if a sample is what the graph reads at once.
        return_sequences: whether the outputs are those of all time steps, instead of the last one.
    """

    path: str
    format: str
    data: memoryview
    graph: Graph
    metadata: Mapping[str, int]
    spans: tuple[tuple[int, int], ...]
    quantization: Mapping[int, Quantization]
    sparsity: Mapping[int, Sparsity]
    signatures: tuple[Signature, ...]
    subgraphs: int
    description: str
    version: int
    variables: Mapping[Key, Variable] = field(default_factory=dict)
    sequence_length: int | None = None
    return_sequences: bool = False

    def buffer(self, index: int) -> memoryview:
        """The bytes of a buffer."""
        offset, size = self.spans[index]
        return self.data[offset : offset + size]

    def check_file(self) -> None:
        """Raises LostFileError if the file became shorter before it was read."""
        file = mapped_file(self.data)
        if file is not None:
            file.check()

    def release_pages(self) -> None:
        """Releases the mapped file's pages, which the system loads again when they are read."""
        if isinstance(self.data.obj, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            self.data.obj.madvise(mmap.MADV_DONTNEED)


def read_model(path: str | os.PathLike[str]) -> Model:
    """Maps and checks a model file.

    Args:
        path: the file, or an nnpackage that holds it.

    Raises:
        ModelError: if the file cannot be read or breaks a rule of its format.
        LostFileError: if the file became shorter meanwhile.
    """
    name, kind = os.fspath(path), None
    if os.path.isdir(name):
        name, kind = packaged_model(name)
    try:
        handle = os.open(
            name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a device or pipe"
                raise ModelError(f"{name}: a model must be a file, but got {kind}")
            if not status.st_size:
                raise ModelError(f"{name}: a model must have 8 bytes or more, but got 0")
            data = map_or_read(handle, name)
        finally:
            os.close(handle)
    except (OSError, ValueError) as e:  # ValueError: a null byte in the path
        reason = getattr(e, "strerror", None) or str(e)
        raise ModelError(f"{name}: must be a readable file, but got: {reason.lower()}.") from e
    model = parse_model(memoryview(data), name)
    model.check_file()
    if kind not in (None, model.format):
        raise ModelError(
            f"{os.fspath(path)}: its MANIFEST must name the model's type, {model.format}, but got "
            f"{kind}"
        )
    return model


def parse_model(data: memoryview, name: str) -> Model:
    """Parses and checks a model in memory.

    Args:
        data: all bytes of the file, read-only.
        name: the file's name in messages.
    """
    source = FlatBuffer(name, data)
    identifier = bytes(data[4:8])
    if identifier not in FORMATS:
        raise ModelError(
            f"{name}: must be a .circle or .tflite model, but is none: bytes 4 to 7 must be "
            f"{' or '.join(i.decode() for i in FORMATS)}, but got {identifier!r}."
        )
    root = source.root()
    spans = tuple(_span(t, source) for t in root.tables(4, "buffer"))
    graphs = list(root.tables(2, "subgraph"))
    if not graphs:
        raise ModelError(f"{name}: a model must have a subgraph, but got none")
    codes = [_operator_code(t, FORMATS[identifier]) for t in root.tables(1, "operator code")]
    tensors, quantization, sparsity = _tensors(graphs[0], spans)
    metadata: dict[str, int] = {}
    for t in root.tables(6, "metadata"):
        metadata.setdefault(t.string(0, "name"), _below(t, t.number(1, "I"), "buffer", len(spans)))
    graph = _graph(graphs[0], codes, tensors, name)
    return Model(
        path=name,
        format=FORMATS[identifier],
        data=data,
        graph=graph,
        metadata=metadata,
        spans=spans,
        quantization=quantization,
        sparsity=sparsity,
        signatures=tuple(_signature(t, len(graphs)) for t in root.tables(7, "signature")),
        subgraphs=len(graphs),
        description=root.string(3, "description"),
        version=root.number(0, "I"),
        variables=_initial_values(graph, graphs, codes, spans),
    )


def _initial_values(
    graph: Graph, graphs: Sequence[Table], codes: list[str], spans: tuple[tuple[int, int], ...]
) -> dict[Key, Variable]:
    """Reads the values that the subgraphs of CALL_ONCE assign to variables."""
    values: dict[Key, Variable] = {}
    read = set[int]()
    for node in graph.nodes:
        if node.op != INITIALIZE:
            continue
        k = int(node.options["init_subgraph_index"])
        if not 0 < k < len(graphs):
            raise ModelError(
                f"{graph.name}: operator {node.origin} ({node.op}): its subgraph must be from 1 to "
                f"{len(graphs) - 1}, but got {k}."
            )
        if k not in read:
            tensors, *_ = _tensors(graphs[k], spans)
            values.update(assigned_values(_graph(graphs[k], codes, tensors, graph.name), k))
        read.add(k)
    return values


def _below(table: Table, index: int, what: str, count: int) -> int:
    if not 0 <= index < count:
        raise table.error(f"{what} must be below {count}, but got {index}")
    return index


def _span(table: Table, source: FlatBuffer) -> tuple[int, int]:
    """Returns (offset, size) of a buffer; models beyond 2 GiB hold buffers after the flatbuffer."""
    start, size = table.vector(0, 1, "data")
    if size:
        return start, size
    start, size = table.number(1, "Q"), table.number(2, "Q")
    if start <= 1 or not size:
        return 0, 0
    if start + size > source.size:
        raise table.error(
            f"its bytes must end within the file's {source.size}, "
            f"but got {size} bytes at offset {start}"
        )
    return start, size


def _operator_code(table: Table, file_format: str) -> str:
    """Returns the name of an operator code: a byte in old files, a second field for large codes."""
    codes = table.number(0, "b"), table.number(3, "i")
    code = min(codes) if min(codes) < 0 else max(codes)
    name = operator_name(code) if code >= 0 or file_format == "circle" else None
    if name is None:
        raise table.error(f"must be an operator of the {file_format} schema, but got code {code}")
    if name != "CUSTOM":
        return name
    return f"CUSTOM:{one_line(table.string(1, 'custom code'), MOST_NAME)}"


def _signature(table: Table, subgraphs: int) -> Signature:
    inputs, outputs = (
        {t.string(0, "name"): t.number(1, "I") for t in table.tables(k, what, f"{table.where}, ")}
        for k, what in enumerate(("input", "output"))
    )
    subgraph = _below(table, table.number(4, "I"), "subgraph", subgraphs)
    return Signature(table.string(2, "key"), inputs, outputs, subgraph)


def _tensors(
    graph: Table, spans: tuple[tuple[int, int], ...]
) -> tuple[list[Tensor], dict[int, Quantization], dict[int, Sparsity]]:
    tensors: list[Tensor] = []
    quantization: dict[int, Quantization] = {}
    sparsity: dict[int, Sparsity] = {}
    for i, table in enumerate(graph.tables(0, "tensor")):
        name = table.string(3, "name")
        if name:
            table.where += f' ("{one_line(name, MOST_NAME)}")'
        scales = _quantization(table)
        if scales is not None:
            quantization[i] = scales
        signature, spec = _spec(table)
        buffer = _below(table, table.number(2, "I"), "buffer", max(len(spans), 1))
        data = _constant(table, spec, spans[buffer]) if buffer < len(spans) else None
        dtype = SPARSE_FLOATS.get((spec.dtype.names or ("",))[0])
        if dtype is not None and data is not None:
            sparsity[i] = read_sparsity(table, spec.shape, dtype, data.nbytes)
        tensors.append(
            Tensor(
                name=name,
                spec=spec,
                signature=signature,
                data=data,
                buffer=buffer,
                quantized=scales is not None,
                variable=bool(table.number(5, "b")),
            )
        )
    return tensors, quantization, sparsity


def _spec(table: Table) -> tuple[tuple[int, ...], TensorSpec]:
    """Returns the shape with −1 for open entries, and the spec with 1 for them.

    A type that NumPy lacks becomes a dtype of one opaque byte with a field of that name.
    """
    shape = table.numbers(0, "shape")
    signature = table.numbers(7, "shape signature") or shape
    if len(signature) != len(shape):
        raise table.error(
            f"shape and shape signature must have the same length, but got {shape} and {signature}"
        )
    if len(shape) > MOST_AXES or min((*shape, *signature), default=0) < -1:
        raise table.error(
            f"shape must have at most {MOST_AXES} entries, none below -1, "
            f"but got {len(shape)}: {shape[:8]}, signature {signature[:8]}"
        )
    sizes = tuple(1 if n < 0 else n for n in shape)
    if any(n < 0 for n in shape):
        signature = tuple(-1 if n < 0 else s for n, s in zip(shape, signature, strict=True))
    code = table.number(1, "b")
    kind = tensor_type(code)
    if kind is None:
        raise table.error(f"type must be one of the schema, but got code {code}")
    if table.place(6, 4):
        kind = f"SPARSE_{kind}"
    if table.number(10, "b"):
        kind = f"COMPRESSED_{kind}"
    dtype = DTYPES.get(kind) or np.dtype([(kind, "V1")])
    if math.prod(n for n in sizes if n) * dtype.itemsize > MOST_BYTES:
        raise table.error(f"a tensor must fit into {MOST_BYTES} bytes, but got {shape} {kind}")
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
        raise table.error(
            f"its {spec} needs {spec.nbytes} bytes, but buffer {table.number(2, 'I')} has {size}",
            "The buffer is larger than its tensor." if size > spec.nbytes else DAMAGED,
        )
    if offset % spec.dtype.itemsize:  # kernels need aligned arrays; writers align to 16 bytes
        copy = np.frombuffer(data[offset : offset + size].tobytes(), spec.dtype)
        return copy.reshape(spec.shape)
    return np.frombuffer(data, spec.dtype, spec.size, offset).reshape(spec.shape)


def _quantization(table: Table) -> Quantization | None:
    """Reads the quantization of a tensor; None without a scale: converters also store ranges."""
    details = table.table(4, "quantization")
    scale = details.array(2, "<f4", "scale") if details else None
    if details is None or scale is None or not len(scale):
        return None
    zero_point = details.array(3, "<i8", "zero point")
    if len(zero_point) not in (0, len(scale)):
        raise details.error(
            f"scale and zero point must have the same length, but got {len(scale)} and "
            f"{len(zero_point)}"
        )
    zero_point = zero_point if len(zero_point) else np.zeros(len(scale), np.int64)
    return Quantization(scale, zero_point, details.number(6, "i"))


def _graph(table: Table, codes: list[str], tensors: list[Tensor], name: str) -> Graph:
    inputs, outputs = table.numbers(1, "inputs"), table.numbers(2, "outputs")
    nodes = [_node(t, i, codes) for i, t in enumerate(table.tables(3, "operator"))]
    made = {*inputs, *(i for node in nodes for i in node.outputs)}
    tensors = [_with_nothing(t, i in made) for i, t in enumerate(tensors)]
    known = {i for i, t in enumerate(tensors) if t.data is not None or t.variable}
    ordered = topological_order(nodes, known.union(inputs))
    try:
        return Graph(tuple(tensors), ordered, inputs, outputs, name)
    except ModelError as e:
        raise ModelError(f"{name}: {e}") from e


def _node(table: Table, position: int, codes: list[str]) -> Node:
    op = codes[_below(table, table.number(0, "I"), "operator code", len(codes))]
    table.where += f" ({op})"
    options: Mapping[str, Any] = read_options(table, op)
    return Node(op, table.numbers(1, "inputs"), table.numbers(2, "outputs"), options, position)


def _with_nothing(tensor: Tensor, made: bool) -> Tensor:
    """Adds the data of an empty constant, which has no bytes in the file."""
    if made or tensor.spec.size or tensor.data is not None or tensor.variable:
        return tensor
    empty: Array = np.empty(tensor.spec.shape, tensor.spec.dtype)
    empty.flags.writeable = False
    return Tensor(
        tensor.name, tensor.spec, tensor.signature, empty, tensor.buffer, tensor.quantized
    )
