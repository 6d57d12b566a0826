"""A graph for one sample, as a model file holds it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from model_builder import ModelBuilder

from odt.kernels.rows.opdef import Array
from support.graph_fuzz.operators import Node, compute

# Fused activations by the schema's numbers.
ACTIVATIONS = {0: "", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH"}


@dataclass
class SampleGraph:
    """A graph that grows. Shapes are those of one sample, whose values are computed on the way.

    Attributes:
        values: of all tensors, at a random sample: float64, int32 or bool.
        constants: the tensors that are constants, with what the file says.
        batches: entries of integer constants that are the batch, as (tensor, position): they are 1,
            and the batch in a file that was made for several samples.
        fixed: float constants that never train.
    """

    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    values: list[Array] = field(default_factory=list)
    constants: dict[int, Array] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    batches: list[tuple[int, int]] = field(default_factory=list)
    fixed: set[int] = field(default_factory=set)

    def _tensor(self, value: Array) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def input(self, *shape: int) -> int:
        """A model input of floats; entry 0 of the shape is the batch, 1."""
        self.inputs.append(self._tensor(self.rng.normal(size=shape)))
        return self.inputs[-1]

    def ids(self, shape: Sequence[int], below: int) -> int:
        """A model input of integers."""
        self.inputs.append(self._tensor(self.rng.integers(0, below, shape).astype(np.int32)))
        return self.inputs[-1]

    def constant(self, values: Any) -> int:
        """A constant: float32 or, of Python's integers, int32."""
        a = np.asarray(values)
        a = a.astype({"f": np.float32, "i": np.int32, "b": np.bool_}[a.dtype.kind])
        i = self._tensor(a.astype(np.float64) if a.dtype.kind == "f" else a)
        self.constants[i] = a
        return i

    def weight(self, *shape: int, scale: float | None = None) -> int:
        """A float constant; by default as small as keeps a product of its last axis in size."""
        size = 1 / np.sqrt(shape[-1]) if scale is None and len(shape) > 1 else scale or 0.5
        return self.constant(self.rng.normal(0, size, shape))

    def add(
        self,
        op: str,
        inputs: Sequence[int],
        activation: str = "",
        *,
        outputs: int = 1,
        **options: Any,
    ) -> int:
        """A node; gives its first output, and the others follow."""
        made = tuple(range(len(self.values), len(self.values) + outputs))
        node = Node(op, tuple(inputs), made, options, activation)
        self.values += compute(node, [None if i < 0 else self.values[i] for i in inputs])
        self.nodes.append(node)
        return made[0]

    def dense(self, x: int, units: int, activation: str = "", **options: Any) -> int:
        """FULLY_CONNECTED with weights and bias."""
        width = self.values[x].shape[-1]
        inputs = x, self.weight(units, width), self.weight(units)
        return self.add("FULLY_CONNECTED", inputs, activation, **options)

    def reshape(self, x: int, *shape: int) -> int:
        return self.add("RESHAPE", (x, self.constant(shape)), new_shape=shape)

    def transpose(self, x: int, *perm: int) -> int:
        return self.add("TRANSPOSE", (x, self.constant(perm)))

    def weights(self) -> tuple[int, ...]:
        """Float constants that train: those with axes."""
        floats = (i for i, a in self.constants.items() if a.dtype.kind == "f" and a.ndim)
        return tuple(i for i in floats if i not in self.fixed)

    def needed(self) -> list[Node]:
        """The nodes that the outputs depend on."""
        read, found = set(self.outputs), []
        for node in reversed(self.nodes):
            if read.intersection(node.outputs):
                read.update(node.inputs)
                found.append(node)
        return found[::-1]

    def write(self, path: Path, batch: int = 1) -> None:
        """Writes the file, a Circle or a TFLite model as its name says; `batch` samples in it."""
        builder, values = ModelBuilder(path.suffix[1:]), self._of_batch(batch)
        at = {-1: -1}
        for i in self.inputs:
            at[i] = builder.add_input(values[i].shape, type_of(values[i]))
        for i in sorted({i for n in self.nodes for i in n.inputs} & self.constants.keys()):
            a = self.constants[i] if self.constants[i].dtype.kind == "f" else values[i]
            at[i] = builder.add_constant(a, f"weight_{i}")
        for node in self.nodes:
            shapes = [values[i].shape for i in node.outputs]
            options = {n: v for n, v in node.options.items() if n != "output_types"}
            if node.activation:
                numbers = {name: k for k, name in ACTIVATIONS.items()}
                options["fused_activation_function"] = numbers[node.activation]
            if "new_shape" in options:
                options["new_shape"] = values[node.inputs[1]].tolist()
            first = builder.add_operator(node.op, [at[i] for i in node.inputs], *shapes, **options)
            for k, i in enumerate(node.outputs):
                at[i] = first + k
                set_type(builder, first + k, type_of(values[i]))
        builder.write(path, *(at[i] for i in self.outputs))

    def _of_batch(self, batch: int) -> list[Array]:
        """The values of so many samples, all the same; where axis 0 is the batch."""
        if batch == 1:
            return self.values
        values = list(self.values)
        for i in self.inputs:
            values[i] = np.repeat(values[i], batch, 0)
        for i, position in self.batches:
            values[i] = values[i].copy()
            values[i][position] = batch
        for node in self.nodes:
            made = compute(node, [None if i < 0 else values[i] for i in node.inputs])
            for i, a in zip(node.outputs, made, strict=True):
                values[i] = a
        return values

    def __str__(self) -> str:
        lines = [f"input t{i} {self.values[i].shape}" for i in self.inputs]
        for node in self.nodes:
            made = ", ".join(f"t{i} {self.values[i].shape}" for i in node.outputs)
            given = ", ".join(map(self._name, node.inputs))
            more = [f"{n}={v}" for n, v in node.options.items()] + [node.activation]
            lines.append(f"{made} = {node.op}({given}) {' '.join(more)}".rstrip())
        return "\n".join([*lines, f"outputs {', '.join(f't{i}' for i in self.outputs)}"])

    def _name(self, i: int) -> str:
        if i not in self.constants:
            return f"t{i}" if i >= 0 else "-"
        a = self.constants[i]
        return f"w{i} {a.shape}" if a.dtype.kind == "f" else str(a.tolist())


def type_of(a: Array) -> str:
    """The type of a tensor in the file."""
    return "float32" if a.dtype.kind == "f" else a.dtype.name


def set_type(builder: ModelBuilder, tensor: int, dtype: str) -> None:
    """Gives a tensor of the file this type."""
    other = builder.add_tensor((), dtype)
    tensors = builder.graph.tensors
    tensors[tensor].type = tensors.pop(other).type
