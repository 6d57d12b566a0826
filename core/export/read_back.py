"""Verifies an exported model by reading it back before the file gets its name."""

from collections.abc import Iterator, Mapping
from dataclasses import field

import numpy as np

from odt.core.formats.reader import read_model
from odt.core.lowering.normalize.inline import inline
from odt.core.model.graph import Node
from odt.core.model.model import Model
from odt.core.model.quantization_rules import is_same_quantization
from odt.core.recipe.interface import resized
from odt.dataclass import dataclass
from odt.errors import ModelError
from odt.kernels.geometry.quantize import Quantization
from odt.kernels.rows.opdef import Array

AT_ONCE = 1 << 18  # bytes of a file to read before its pages are released
BLOCK = 1 << 16  # bytes compared at a time


class PageReader:
    """Counts the bytes that are read from model files, and releases their pages.

    Args:
        models: models whose files are read.
    """

    def __init__(self, *models: Model) -> None:
        self._models = models
        self._nbytes = 0

    def count(self, nbytes: int) -> None:
        """Adds bytes; releases the pages of the files after each AT_ONCE bytes."""
        self._nbytes += nbytes
        if self._nbytes >= AT_ONCE:
            self._nbytes = 0
            for model in self._models:
                model.release_pages()


@dataclass(frozen=True, slots=True)
class ExportContents:
    """Expected contents of an exported model.

    Attributes:
        path: path of the exported file.
        model: the original model; everything else must be equal to it.
        weights: tensor index → changed values, as the file stores them.
        quantizations: tensor index → changed scales and zero points.
        entries: metadata entries that were written.
    """

    path: str
    model: Model
    weights: Mapping[int, Array] = field(default_factory=dict)
    quantizations: Mapping[int, Quantization] = field(default_factory=dict)
    entries: Mapping[str, bytes | None] = field(default_factory=dict)

    def check(self, written: str) -> None:
        """Compares the written file with the expected contents, bit for bit.

        Raises:
            ModelError: if anything differs.
        """
        try:
            model = read_model(written, self.model.signature, self.model.subgraph)
        except ModelError as e:
            raise self._error(str(e)) from e
        model = inline(resized(model, self.model.input_shapes))
        difference = next(self._differences(model), None)
        if difference is not None:
            raise self._error(f"another {difference}")

    def _error(self, actual: str) -> ModelError:
        return ModelError(
            f"{self.path}: an export must read back as it was written, but got {actual}. "
            "The file was not written."
        )

    def _differences(self, model: Model) -> Iterator[str]:
        """Yields what differs, as the end of a message."""
        graph, read = self.model.graph, model.graph
        if (graph.inputs, graph.outputs) != (read.inputs, read.outputs) or (
            [*map(_kind, graph.nodes)] != [*map(_kind, read.nodes)]
        ):
            yield "graph"
        if len(graph.tensors) != len(read.tensors):
            yield "number of tensors"
        reader = PageReader(self.model, model)
        for i, (before, after) in enumerate(zip(graph.tensors, read.tensors, strict=True)):
            if (before.name, before.spec) != (after.name, after.spec):
                yield graph.label(i)
            if not _are_same(self.weights.get(i, before.data), after.data, reader):
                yield f"value of {graph.label(i)}"
            old = self.model.quantization.get(i)
            expected = old and self.quantizations.get(i, old)
            if not is_same_quantization(expected, model.quantization.get(i)):
                yield f"quantization of {graph.label(i)}"
        for name, data in self.entries.items():
            if stored_entry(model, name) != data:
                yield f"metadata entry {name}"


def stored_entry(model: Model, name: str) -> bytes | None:
    """Returns the bytes of a metadata entry; None if there is none."""
    index = model.metadata.get(name)
    return None if index is None else bytes(model.buffer(index))


def _kind(node: Node) -> tuple[object, ...]:
    return node.op, node.inputs, node.outputs, node.origin


def _are_same(a: Array | None, b: Array | None, reader: PageReader) -> bool:
    """Whether two arrays have the same bits, or both are None."""
    return a is b if a is None or b is None else have_same_bits(a, b, reader)


def have_same_bits(a: Array, b: Array, reader: PageReader | None = None) -> bool:
    """Whether two arrays have the same bits, also those of NaN and −0.

    Args:
        a: an array.
        b: an array.
        reader: counts the bytes, if an array is a part of a file.
    """
    x, y = bits_of(a), bits_of(b)
    if len(x) != len(y):
        return False
    for k in range(0, len(x), BLOCK):
        block = x[k : k + BLOCK]
        same = np.array_equal(block, y[k : k + BLOCK])
        if reader is not None:
            reader.count(len(block))
        if not same:
            return False
    return True


def bits_of(a: Array) -> Array:
    """Returns the bytes of an array, flat."""
    return np.ascontiguousarray(a).reshape(-1).view(np.uint8)
