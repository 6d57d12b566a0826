"""Builds the graph of a sequence from the graph of one time step of a streaming model."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from odt.core.model.graph import Node, Tensor
from odt.core.model.model import Model
from odt.core.model.variables import Key, handles
from odt.errors import UnsupportedError
from odt.kernels.rows.opdef import TensorSpec

TIME = 1  # axis of the time steps in inputs and outputs, and of frames in a time step


class SequenceBuilder:
    """Collects the tensors and nodes of the graph of a sequence.

    Attributes:
        model: the streaming model.
        graph: its graph, of one time step.
        count: number of time steps.
        tensors: tensors of the file, then new ones.
        nodes: nodes of the new graph.
        quantization: quantizations of the tensors.
        keys: tensor with a handle → the variable to which it refers.
    """

    def __init__(self, model: Model) -> None:
        self.model, self.graph = model, model.graph
        self.count = model.sequence_length or 1
        self.tensors = list(model.graph.tensors)
        self.nodes: list[Node] = []
        self.quantization = dict(model.quantization)
        self.keys = handles(model.graph.nodes)

    def new(self, tensor: Tensor, like: int) -> int:
        """Adds a tensor with the quantization of another one."""
        self.tensors.append(tensor)
        if like in self.quantization:
            self.quantization[len(self.tensors) - 1] = self.quantization[like]
        return len(self.tensors) - 1

    def activation_like(self, shape: Sequence[int], like: int) -> int:
        """Adds an activation like another one, with another shape."""
        tensor = self.tensors[like]
        spec = TensorSpec(tuple(shape), tensor.spec.dtype)
        return self.new(replace(tensor, spec=spec, signature=(), data=None, variable=False), like)

    def add_slice(self, x: int, begin: int, end: int, y: int, origin: int) -> None:
        """Adds the STRIDED_SLICE y of x from an index along the axis of time to another one."""
        rank = len(self.tensors[x].spec.shape)
        bounds = [[at if k == TIME else 0 for k in range(rank)] for at in (begin, end)]
        inputs = (x, *(self.constant(values) for values in (*bounds, [1] * rank)))
        others = (1 << rank) - 1 - (1 << TIME)  # axes that are selected as a whole
        options = {
            **dict.fromkeys(("ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0),
            "begin_mask": others,
            "end_mask": others,
            "offset": False,
        }
        self.nodes.append(Node("STRIDED_SLICE", inputs, (y,), options, origin))

    def constant(self, values: Sequence[int]) -> int:
        """Adds a constant of integers."""
        data = np.array(values, np.int32)
        data.flags.writeable = False
        self.tensors.append(Tensor("", TensorSpec(data.shape, data.dtype), (), data))
        return len(self.tensors) - 1

    def initial(self, node: Node, key: Key) -> int:
        """Adds the initial value of a variable that a node reads."""
        (y,) = node.outputs
        variable = self.model.variables.get(key)
        value = None if variable is None else variable.real
        if value is None:
            rule = "its variable must get a constant as initial value by a CALL_ONCE"
            raise self.error(node, f"{rule}, but got none")
        spec = TensorSpec(value.shape, value.dtype)
        quantized = self.graph.tensors[y].quantized
        x = self.new(Tensor(key[1], spec, (), value, 0, quantized, variable=True), y)
        self.check_read(node, x)
        return x

    def check_read(self, node: Node, x: int) -> None:
        """Raises UnsupportedError unless a node may read a variable that holds x."""
        (y,) = node.outputs
        same_type = self.tensors[x].spec.dtype == self.tensors[y].spec.dtype
        if not same_type or not self.same_scale(x, y):
            raise self.error(
                node,
                "the variable must be read with the type and scale with which it was assigned, "
                f"but got {self.graph.label(y)}",
            )

    def same_scale(self, x: int, y: int) -> bool:
        """Whether two tensors have the same quantization."""
        a, b = self.quantization.get(x), self.quantization.get(y)
        if a is None or b is None:
            return a is b
        same_zero = np.array_equal(a.zero_point, b.zero_point)
        return same_zero and np.allclose(a.scale, b.scale, rtol=1e-6, atol=0)

    def error(self, node: Node, rule: str) -> UnsupportedError:
        """Returns an error about a node."""
        return UnsupportedError(f"{self.graph.name}: node {node.origin} ({node.op}): {rule}.")
