"""A checked model: its graph and the other contents of its file. core/formats reads files."""

import mmap
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from odt.core.model.graph import Graph
from odt.core.model.variables import Key, Variable
from odt.core.storage.mapped_files import mapped_file
from odt.dataclass import dataclass
from odt.errors import UnsupportedError
from odt.kernels.geometry.quantize import Quantization

if TYPE_CHECKING:
    from odt.core.model.sparsity import Sparsity

ONNX = "onnx"
FLATBUFFERS = ("tflite", "circle")  # formats with the tables of TFLite
FORMATS = (*FLATBUFFERS, ONNX)
# Suffixes of other kinds of files, which no model gets.
OTHER_SUFFIXES = {".h5", ".hdf5", ".keras", ".pb", ".pt", ".pth", ".ckpt", ".odt"}
OTHER_SUFFIXES |= {".npy", ".npz", ".csv", ".json", ".zip", ".py"}


@dataclass(frozen=True, slots=True)
class Signature:
    """A named entry of the model: argument names → tensor indices of a subgraph."""

    key: str
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    subgraph: int


@dataclass(frozen=True, slots=True)
class Body:
    """A subgraph: its graph, and tensor index → quantization and sparsity."""

    graph: Graph
    quantization: Mapping[int, Quantization]
    sparsity: "Mapping[int, Sparsity]"


@dataclass(frozen=True, slots=True)
class ExternalSpan:
    """Values of a constant in a file beside the model.

    Attributes:
        location: path of that file from the model's folder, as in the model.
        data: all its bytes, read-only.
        offset, size: place of the values.
    """

    location: str
    data: memoryview
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Model:
    """A checked model file.

    Attributes:
        path: path as the user named it; messages begin with it.
        format: circle or tflite, by the file identifier; or onnx.
        data: all bytes, read-only; constants are views of them.
        graph: the subgraph, including its constants.
        metadata: name → buffer index.
        spans: (offset, size) in the file of each buffer; (0, 0) for an empty buffer.
        external: buffer → its place in a file beside the model (ONNX).
        quantization: tensor index → quantization, for quantized tensors.
        sparsity: tensor index → sparsity, for sparse constants of float16, float32 or int8, whose
            data in the graph are bytes.
        signatures: signatures of all subgraphs.
        subgraphs: number of subgraphs; those after 0 are bodies of control flow or other entries.
        description, version: as in the file.
        variables: container and name of a variable → its initial value.
        sequence_length: time steps in a sample; None if a sample is what the graph reads at once.
        return_sequences: whether the outputs are those of all time steps, instead of the last one.
        bodies: subgraphs that operators of the graph run, by number; also those of CALL_ONCE.
        subgraph: number of the subgraph that is used.
        signature: key of the signature that was chosen; None for the first subgraph.
        input_shapes: input → shape that it has instead of the file's (core/recipe/interface.py).
        places: tensor index → subgraph and index there, for tensors of other subgraphs that were
            inlined (core/lowering/normalize/inline.py).
        batch_statistics: whether batch normalizations of an ONNX file are nodes that may use the
            statistics of batches.
        equalized: weights and biases that train from equalized values (core/integers/equalize.py).
        anchors: anchors of a detector that the user states; empty for those of the file.
        sparse: constant of integers → the sparse constant of which a DENSIFY makes it, where
            activations are quantized (core/lowering/normalize/inline.py).
    """

    path: str
    format: str
    data: memoryview
    graph: Graph
    metadata: Mapping[str, int]
    spans: tuple[tuple[int, int], ...]
    quantization: Mapping[int, Quantization]
    sparsity: "Mapping[int, Sparsity]"
    signatures: tuple[Signature, ...]
    subgraphs: int
    description: str
    version: int
    variables: Mapping[Key, Variable] = field(default_factory=dict)
    sequence_length: int | None = None
    return_sequences: bool = False
    bodies: Mapping[int, Body] = field(default_factory=dict)
    subgraph: int = 0
    signature: str | None = None
    input_shapes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    places: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    equalized: frozenset[int] = frozenset()
    sparse: Mapping[int, int] = field(default_factory=dict)
    external: Mapping[int, ExternalSpan] = field(default_factory=dict)
    batch_statistics: bool = False
    anchors: str = ""

    def place(self, tensor: int) -> tuple[int, int]:
        """Returns the subgraph of a tensor in the file, and its index there."""
        return self.places.get(tensor, (self.subgraph, tensor))

    def buffer(self, index: int) -> memoryview:
        """The bytes of a buffer."""
        offset, size = self.spans[index]
        return self.data[offset : offset + size]

    def check_flatbuffer(self, what: str) -> None:
        """Checks that the model is a Circle or TFLite file.

        Args:
            what: the command or function that needs such a file, such as "odt cut".

        Raises:
            UnsupportedError: if it is not.
        """
        if self.format not in FLATBUFFERS:
            raise UnsupportedError(
                f"{self.path}: {what} takes Circle and TFLite models, but got {self.format}. "
                "Convert it first with `Model.save()`."
            )

    def check_file(self) -> None:
        """Raises LostFileError if the file became shorter before it was read."""
        file = mapped_file(self.data)
        if file is not None:
            file.check()

    def release_pages(self) -> None:
        """Releases the mapped file's pages, which the system loads again when they are read."""
        if isinstance(self.data.obj, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            self.data.obj.madvise(mmap.MADV_DONTNEED)
