"""Unrolls a streaming model: the graph of several time steps, through which the state passes.

A streaming model keeps state in variables from one run to the next. Each run is a time step. In the
unrolled graph a variable is an activation: READ_VARIABLE yields what ASSIGN_VARIABLE stored last,
in the same time step or before, and at first the initial value. All time steps share the weights,
so that their gradients add up (back-propagation through time). The graph has no variables, and
everything behind treats it like that of any other model.

Inputs (1, …) become inputs (1, time steps, …). Outputs are those of the last time step; with
`return_sequences` they are (1, time steps, …).

Constants and the tensors of the last time step keep their indices; those of others are new.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from odt.core.lowering.final_activation import PROBABILITIES
from odt.core.model.graph import ABSENT, Node, Tensor
from odt.core.model.integer_operators import CONVERSIONS
from odt.core.model.reader import Model
from odt.core.model.variables import (
    ASSIGN,
    HANDLE,
    INITIALIZE,
    READ,
    Key,
    handles,
    keeps_state,
)
from odt.errors import UnsupportedError
from odt.kernels.opdef import TensorSpec

STATE = (HANDLE, READ, ASSIGN, INITIALIZE)
AXIS = 1  # of the time steps, in inputs and outputs


def unroll(model: Model) -> Model:
    """Returns a model with the graph of a sample of all time steps; the model itself without state.

    Raises:
        UnsupportedError: if the value of a variable is unknown or changes its type.
    """
    return _Unroller(model).unroll() if keeps_state(model.graph) else model


def one_step(model: Model) -> Model:
    """Returns a model with the graph of its first run."""
    return unroll(replace(model, sequence_length=None, return_sequences=False))


class _Unroller:
    """Builds the graph of all time steps.

    Attributes:
        tensors: tensors of the file, then inputs, initial values and earlier time steps.
        quantization: quantizations of these tensors.
        state: variable → tensor that holds its value.
    """

    def __init__(self, model: Model) -> None:
        self.model, self.graph = model, model.graph
        self.tensors, self.nodes = list(model.graph.tensors), list[Node]()
        self.quantization = dict(model.quantization)
        self.keys = handles(model.graph.nodes)
        self.state: dict[Key, int] = {}

    def unroll(self) -> Model:
        graph, count = self.graph, self.model.sequence_length or 1
        if self.model.sequence_length is None:
            inputs, given = graph.inputs, [{i: i for i in graph.inputs}]
        else:
            inputs, given = self._split_inputs(count)
        steps = [self._add_step(each, k == count - 1) for k, each in enumerate(given)]
        if self.model.return_sequences:
            outputs = tuple(self._sequence(i, steps) for i in graph.outputs)
        else:
            outputs = tuple(steps[-1].get(i, i) for i in graph.outputs)
        nodes = self.nodes if self.model.sequence_length is None else _needed(self.nodes, outputs)
        unrolled = replace(
            graph, tensors=tuple(self.tensors), nodes=tuple(nodes), inputs=inputs, outputs=outputs
        )
        return replace(self.model, graph=unrolled, quantization=self.quantization)

    def _split_inputs(self, count: int) -> tuple[tuple[int, ...], list[dict[int, int]]]:
        """Adds the inputs; returns them, and the inputs of each time step."""
        inputs: list[int] = []
        given: list[dict[int, int]] = [{} for _ in range(count)]
        for i in self.graph.inputs:
            sequence = self._with_steps(i, count)
            inputs.append(sequence)
            for k, each in enumerate(given):
                each[i] = self._copy(i, k == count - 1)
            made = tuple(each[i] for each in given)
            readers = (node.origin for node in self.graph.nodes if i in node.inputs)
            options = {"num": count, "axis": AXIS}
            self.nodes.append(Node("UNPACK", (sequence,), made, options, min(readers, default=0)))
        return tuple(inputs), given

    def _with_steps(self, i: int, count: int) -> int:
        """Adds a tensor that holds a tensor of all time steps."""
        tensor = self.graph.tensors[i]
        shape = tensor.spec.shape
        if not shape:
            raise UnsupportedError(
                f"{self.graph.name}: {self.graph.label(i)}: must have an axis of samples to be "
                "computed for time steps, but got a scalar."
            )
        open_shape = tensor.signature or shape
        return self._new(
            replace(
                tensor,
                spec=TensorSpec((shape[0], count, *shape[1:]), tensor.spec.dtype),
                signature=(open_shape[0], count, *open_shape[1:]),
            ),
            i,
        )

    def _new(self, tensor: Tensor, like: int) -> int:
        """Adds a tensor with the quantization of another one."""
        self.tensors.append(tensor)
        if like in self.quantization:
            self.quantization[len(self.tensors) - 1] = self.quantization[like]
        return len(self.tensors) - 1

    def _copy(self, i: int, is_last: bool) -> int:
        """Returns the tensor of a time step for an activation of the file."""
        return i if is_last else self._new(self.graph.tensors[i], i)

    def _add_step(self, given: Mapping[int, int], is_last: bool) -> dict[int, int]:
        """Adds the nodes of a time step; returns tensor of the file → tensor of the time step."""
        made = dict(given)
        for node in self.graph.nodes:
            if node.op == READ:
                self._read(node, made)
            elif node.op == ASSIGN:
                self._assign(node, made)
            elif node.op not in STATE:
                inputs = tuple(made.get(i, i) for i in node.inputs)
                for i in node.outputs:
                    made[i] = self._copy(i, is_last)
                outputs = tuple(made[i] for i in node.outputs)
                self.nodes.append(replace(node, inputs=inputs, outputs=outputs))
        return made

    def _read(self, node: Node, made: dict[int, int]) -> None:
        key, y = self._key(node), node.outputs[0]
        if key not in self.state:
            self.state[key] = self._initial(node, key)
        x = self.state[key]
        if self.tensors[x].spec.dtype != self.graph.tensors[y].spec.dtype or not self._same(x, y):
            raise self._error(
                node,
                f"the variable must be read with the type and scale with which it was assigned, "
                f"but got {self.graph.label(y)}",
            )
        made[y] = x

    def _assign(self, node: Node, made: Mapping[int, int]) -> None:
        if len(node.inputs) != 2 or ABSENT in node.inputs:
            raise self._error(node, f"must have a variable and a value, but got {node.inputs}")
        self.state[self._key(node)] = made.get(node.inputs[1], node.inputs[1])

    def _key(self, node: Node) -> Key:
        key = self.keys.get(node.inputs[0]) if node.inputs else None
        if key is None or len(node.outputs) != (node.op == READ):
            raise self._error(node, "its variable must be that of a VAR_HANDLE, but is unknown")
        return key

    def _initial(self, node: Node, key: Key) -> int:
        """Adds the initial value of a variable."""
        (y,) = node.outputs
        variable = self.model.variables.get(key)
        if variable is None or variable.value is None:
            rule = "its variable must get a constant as initial value by a CALL_ONCE"
            raise self._error(node, f"{rule}, but got none")
        tensor, value = self.graph.tensors[y], variable.value
        spec = TensorSpec(value.shape, value.dtype)
        initial = Tensor(key[1], spec, (), value, 0, tensor.quantized, variable=True)
        return self._new(initial, y)

    def _same(self, x: int, y: int) -> bool:
        """Whether two tensors have the same quantization."""
        a, b = self.quantization.get(x), self.quantization.get(y)
        if a is None or b is None:
            return a is b
        same_zero = np.array_equal(a.zero_point, b.zero_point)
        return same_zero and np.allclose(a.scale, b.scale, rtol=1e-6, atol=0)

    def _error(self, node: Node, rule: str) -> UnsupportedError:
        return UnsupportedError(f"{self.graph.name}: node {node.origin} ({node.op}): {rule}.")

    def _sequence(self, output: int, steps: Sequence[Mapping[int, int]]) -> int:
        """Adds an output of all time steps; a final activation computes all of them at once."""
        makers = {i: node for node in self.graph.nodes for i in node.outputs}
        tail: list[Node] = []
        i = output
        while i in makers and makers[i].op in (*PROBABILITIES, *CONVERSIONS):
            tail.insert(0, makers[i])
            i = makers[i].inputs[0]
        whole = self._with_steps(i, len(steps))
        members = tuple(each.get(i, i) for each in steps)
        options = {"values_count": len(steps), "axis": AXIS}
        origin = makers[i].origin if i in makers else 0
        self.nodes.append(Node("PACK", members, (whole,), options, origin))
        for node in tail:
            x, whole = whole, self._with_steps(node.outputs[0], len(steps))
            self.nodes.append(replace(node, inputs=(x,), outputs=(whole,)))
        return whole


def _needed(nodes: Sequence[Node], outputs: Sequence[int]) -> list[Node]:
    """Returns the nodes on which outputs depend."""
    needed, kept = set(outputs), []
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            kept.append(node)
            needed.update(node.inputs)
    return kept[::-1]
