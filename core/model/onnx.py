"""Nodes of an ONNX file, and layouts of its weights in memory. Independent of files."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array

PREFIX = "ONNX:"  # begins the operator of a node of an ONNX file


def kind_of(kind: str, domain: str) -> str:
    """Returns an operator's name with its domain; ONNX's own domain has none."""
    return f"{domain}.{kind}" if domain else kind


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """A node as in an ONNX file, without its inputs and outputs.

    Attributes:
        name: name of the node; may be empty.
        kind: name of the operator, such as Conv.
        domain: domain of the operator; empty for ONNX's own.
        opset: version of the domain's operators.
        attributes: name → number, text, tuple of these, or array; a Body for a branch of If; None
            for another graph.
        refusal: why odt cannot compute the node; empty if nothing is known against it.
        waits: whether the node could not be lowered because an earlier one could not be.
    """

    name: str
    kind: str
    domain: str
    opset: int
    attributes: Mapping[str, Any]
    refusal: str = ""
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout in memory of a weight of an ONNX file, as kernels need it.

    Memory holds the file's values with their axes in another order, and then in a shape of its own.

    Attributes:
        shape: shape in the file.
        order: axes of the file in the order of memory.
        divided: shape in the file whose axes are divided before they are ordered, such as channels
            into groups; empty if none is.
    """

    shape: tuple[int, ...]
    order: tuple[int, ...]
    divided: tuple[int, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the axes that are ordered."""
        return self.divided or self.shape

    def to_memory(self, values: Array, shape: tuple[int, ...]) -> Array:
        """Returns values of the file as in memory, where they have another shape."""
        return np.ascontiguousarray(values.reshape(self.sizes).transpose(self.order)).reshape(shape)

    def to_file(self, values: Array) -> Array:
        """Returns values of memory as in the file."""
        assert values.size == math.prod(self.shape), "a layout keeps the number of values"
        transposed = values.reshape([self.sizes[k] for k in self.order])
        return transposed.transpose(np.argsort(self.order)).reshape(self.shape)
