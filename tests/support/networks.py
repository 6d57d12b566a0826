"""Builds graphs in a few lines, without a file."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from odt.core.data.protocol import Weights
from odt.core.model.graph import Graph, Node, Tensor
from odt.kernels.rows.opdef import Array, TensorSpec


class Net:
    """Builds a graph; tensors are named by index, weights are random with a seed."""

    def __init__(self, dtype: Any = np.float32, seed: int = 0) -> None:
        self.dtype = np.dtype(dtype)
        self.rng = np.random.default_rng(seed)
        self.tensors: list[Tensor] = []
        self.nodes: list[Node] = []
        self.inputs: list[int] = []

    def _tensor(self, shape: Sequence[int], dtype: Any = None, data: Array | None = None) -> int:
        i = len(self.tensors)
        spec = TensorSpec(tuple(shape), np.dtype(dtype or self.dtype))
        self.tensors.append(Tensor(f"x{i}", spec, tuple(shape), data, 0 if data is None else i + 1))
        return i

    def input(self, *shape: int) -> int:
        """Adds a model input; the first entry of the shape is the batch, 1."""
        i = self._tensor(shape)
        self.inputs.append(i)
        return i

    def integers(self, *shape: int) -> int:
        """Adds a model input of int32."""
        i = self._tensor(shape, np.int32)
        self.inputs.append(i)
        return i

    def constant(self, values: Any, dtype: Any = None) -> int:
        a = np.array(values, dtype or self.dtype)
        a.flags.writeable = False
        return self._tensor(a.shape, a.dtype, a)

    def weight(self, *shape: int) -> int:
        return self.constant(self.rng.normal(0, 0.4, shape))

    def add(self, op: str, inputs: Sequence[int], shape: Sequence[int], **options: Any) -> int:
        """Adds a node with one output of this shape at batch 1."""
        y = self._tensor(shape)
        self.nodes.append(Node(op, tuple(inputs), (y,), options, len(self.nodes)))
        return y

    def dense(self, x: int, units: int, **options: Any) -> int:
        width = self.tensors[x].spec.shape[-1]
        inputs = (x, self.weight(units, width), self.weight(units))
        return self.add("FULLY_CONNECTED", inputs, (1, units), **options)

    def graph(self, *outputs: int) -> Graph:
        return Graph(
            tuple(self.tensors), tuple(self.nodes), tuple(self.inputs), outputs, name="net"
        )


class ArrayData:
    """Samples in memory."""

    def __init__(self, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        self.inputs, self.targets = inputs, targets
        self.weights: Weights | None = None

    def read(
        self, samples: Sequence[int], inputs: Sequence[Array], targets: Sequence[Array]
    ) -> None:
        numbers = np.asarray(samples)
        pairs = ((self.inputs, inputs), (self.targets, targets))
        for source, rows in pairs:
            for a, out in zip(source, rows, strict=False):
                out[...] = a[numbers].reshape(out.shape)


class InOrder:
    """An order with the same samples in each epoch."""

    def __init__(self, samples: int) -> None:
        self.samples = samples

    def order(self, epoch: int) -> range:
        return range(self.samples)
