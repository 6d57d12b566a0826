"""Unrolls a streaming model: the graph of several time steps, through which the state passes.

A streaming model keeps state in variables from one run to the next. Each run is a time step. In the
unrolled graph a variable is an activation: READ_VARIABLE yields what ASSIGN_VARIABLE stored last,
in the same time step or before, and at first the initial value. All time steps share the weights,
so that their gradients add up (back-propagation through time). The graph has no variables, and
later stages treat it like that of any other model. Operators that compute frame by frame become
operators on all frames (frames.py); the others are repeated in each time step.

Inputs (1, …) become inputs (1, time steps, …). Outputs are those of the last time step; with
`return_sequences` they are (1, time steps, …).

Constants and the tensors of the last time step keep their indices; those of others are new.
"""

from collections.abc import Sequence
from dataclasses import replace

from odt.core.lowering.final_activation import PROBABILITIES
from odt.core.lowering.normalize.left_out import leave_out
from odt.core.lowering.normalize.unread import without_unread
from odt.core.lowering.streaming.frames import Frames
from odt.core.lowering.streaming.sequence_builder import TIME, SequenceBuilder
from odt.core.lowering.streaming.svdf import expand_svdf
from odt.core.model.graph import ABSENT, Node
from odt.core.model.integer_operators import CONVERSIONS
from odt.core.model.model import Model
from odt.core.model.variables import ASSIGN, READ, STATE, Key, keeps_state
from odt.errors import UnsupportedError
from odt.kernels.rows.opdef import TensorSpec


def unroll(model: Model) -> Model:
    """Returns a model with the graph of a sample of all time steps; the model itself without state.

    Raises:
        UnsupportedError: if the value of a variable is unknown or changes its type.
    """
    return _Unroller(expand_svdf(model)).unroll() if keeps_state(model.graph) else model


def one_step(model: Model) -> Model:
    """Returns a model with the graph of its first run, as it trains."""
    part, _ = leave_out(model)
    return unroll(replace(part, sequence_length=None, return_sequences=False))


class _Unroller(SequenceBuilder):
    """Builds the graph of all time steps.

    Attributes:
        state: variable → tensor that holds its value.
        frames: operators that compute all frames at once.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.state: dict[Key, int] = {}
        self.frames = Frames(self)

    def unroll(self) -> Model:
        """Returns the model with the graph of all time steps."""
        graph, inputs = self.graph, self.graph.inputs
        by_step: list[dict[int, int]] = [{} for _ in range(self.count)]
        if self.model.sequence_length is not None:
            inputs = self._add_inputs(by_step)
            for node in graph.nodes:
                self.frames.add(node)
        steps = [self._add_step(copies, k) for k, copies in enumerate(by_step)]
        if self.model.return_sequences:
            outputs = tuple(self._sequence(i, steps) for i in graph.outputs)
        else:
            last = self.count - 1
            outputs = tuple(self._at(i, last, steps[-1], 0) for i in graph.outputs)
        nodes = self.nodes
        if self.model.sequence_length is not None:
            nodes = without_unread(nodes, outputs, lambda _: True)
        unrolled = replace(
            graph, tensors=tuple(self.tensors), nodes=tuple(nodes), inputs=inputs, outputs=outputs
        )
        return replace(self.model, graph=unrolled, quantization=self.quantization)

    def _add_inputs(self, by_step: Sequence[dict[int, int]]) -> tuple[int, ...]:
        """Adds the inputs of all time steps, and their parts."""
        inputs: list[int] = []
        for i in self.graph.inputs:
            sequence = self._with_steps(i)
            inputs.append(sequence)
            origin = min((n.origin for n in self.graph.nodes if i in n.inputs), default=0)
            self.frames.add_input(i, sequence, origin)
            if i in self.frames.windows:
                continue
            for k, copies in enumerate(by_step):
                copies[i] = self._copy(i, k)
            results = tuple(copies[i] for copies in by_step)
            options = {"num": self.count, "axis": TIME}
            self.nodes.append(Node("UNPACK", (sequence,), results, options, origin))
        return tuple(inputs)

    def _with_steps(self, i: int) -> int:
        """Adds a tensor that holds a tensor of all time steps."""
        tensor = self.graph.tensors[i]
        shape = tensor.spec.shape
        if not shape:
            raise UnsupportedError(
                f"{self.graph.name}: {self.graph.label(i)}: must have an axis of samples to be "
                "computed for time steps, but got a scalar."
            )
        open_shape = tensor.signature or shape
        spec = TensorSpec((shape[0], self.count, *shape[1:]), tensor.spec.dtype)
        signature = (open_shape[0], self.count, *open_shape[1:])
        return self.new(replace(tensor, spec=spec, signature=signature), i)

    def _copy(self, i: int, step: int) -> int:
        """Returns the tensor of a time step for an activation of the file."""
        return i if step == self.count - 1 else self.new(self.graph.tensors[i], i)

    def _at(self, i: int, step: int, copies: dict[int, int], origin: int) -> int:
        """Returns the tensor of a time step for a tensor of the file."""
        if i not in copies and i in self.frames.windows:
            copies[i] = self._copy(i, step)
            self.frames.add_step(i, step, copies[i], origin)
        return copies.get(i, i)

    def _add_step(self, copies: dict[int, int], step: int) -> dict[int, int]:
        """Adds the nodes of a time step; returns tensor of the file → tensor of the time step."""
        for node in self.graph.nodes:
            if id(node) in self.frames.done:
                continue
            if node.op == READ:
                self._read(node, copies)
            elif node.op == ASSIGN:
                self._assign(node, copies, step)
            elif node.op not in STATE:
                inputs = tuple(self._at(i, step, copies, node.origin) for i in node.inputs)
                for i in node.outputs:
                    copies[i] = self._copy(i, step)
                outputs = tuple(copies[i] for i in node.outputs)
                self.nodes.append(replace(node, inputs=inputs, outputs=outputs))
        return copies

    def _read(self, node: Node, copies: dict[int, int]) -> None:
        """Lets the output of a READ_VARIABLE be the tensor with the variable's value."""
        key = self._key(node)
        if key not in self.state:
            self.state[key] = self.initial(node, key)
        self.check_read(node, self.state[key])
        copies[node.outputs[0]] = self.state[key]

    def _assign(self, node: Node, copies: dict[int, int], step: int) -> None:
        """Makes a tensor of this time step the variable's value."""
        if len(node.inputs) != 2 or ABSENT in node.inputs:
            raise self.error(node, f"must have a variable and a value, but got {node.inputs}")
        self.state[self._key(node)] = self._at(node.inputs[1], step, copies, node.origin)

    def _key(self, node: Node) -> Key:
        """Returns the variable that a node reads or assigns."""
        key = self.keys.get(node.inputs[0]) if node.inputs else None
        if key is None or len(node.outputs) != (node.op == READ):
            raise self.error(node, "its variable must be that of a VAR_HANDLE, but is unknown")
        return key

    def _sequence(self, output: int, steps: Sequence[dict[int, int]]) -> int:
        """Adds an output of all time steps; a final activation computes all of them at once."""
        makers = {i: node for node in self.graph.nodes for i in node.outputs}
        tail: list[Node] = []
        i = output
        while i in makers and makers[i].op in (*PROBABILITIES, *CONVERSIONS):
            tail.insert(0, makers[i])
            i = makers[i].inputs[0]
        origin = makers[i].origin if i in makers else 0
        members = tuple(self._at(i, k, copies, origin) for k, copies in enumerate(steps))
        whole = self._with_steps(i)
        options = {"values_count": self.count, "axis": TIME}
        self.nodes.append(Node("PACK", members, (whole,), options, origin))
        for node in tail:
            x, whole = whole, self._with_steps(node.outputs[0])
            self.nodes.append(replace(node, inputs=(x,), outputs=(whole,)))
        return whole
