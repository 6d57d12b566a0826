"""Merges the steps of a loop that spells out an RNN or LSTM into one operator over all steps.

Keras and TensorFlow's converter leave loops whose body computes, from xₜ, hₜ₋₁ and cₜ₋₁,

    z = w xₜ + r hₜ₋₁ + b

and, in an RNN, hₜ = tanh(z); in an LSTM, where w (4U, I) and r (4U, U) are those of all gates,

    cₜ = σ(z_f) cₜ₋₁ + σ(z_i) tanh(z_g)    hₜ = σ(z_o) tanh(cₜ)

Without the loop these are up to 15 operators for each step. One operator over all steps takes a
third of the time, and a plan for it is made at once; one for 1,000 steps takes seconds.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from odt.core.lowering.graph_builder import GraphBuilder, node_of
from odt.core.lowering.patterns import Bindings, Pattern, match
from odt.core.model.graph import ABSENT, Graph, LoweredGraph, Node
from odt.core.model.topological_order import topological_order
from odt.dataclass import dataclass

LSTM, RNN = "UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN"
STATE: Pattern = ("MUL", ("LOGISTIC", "zo"), ("TANH", "cell"))
CELL: Pattern = (
    "ADD",
    ("MUL", ("LOGISTIC", "zf"), "cell before"),
    ("MUL", ("LOGISTIC", "zi"), ("TANH", "zg")),
)
OF_X: Pattern = ("FULLY_CONNECTED", "x", "w", "none")
OF_STATE: Pattern = ("FULLY_CONNECTED", "state before", "r", "none")
SUM: Pattern = [
    ("ADD", ("ADD", OF_X, OF_STATE), "b"),
    ("ADD", ("ADD", OF_X, "b"), OF_STATE),
    ("ADD", OF_X, ("ADD", OF_STATE, "b")),
    ("ADD", ("FULLY_CONNECTED", "x", "w", "b"), OF_STATE),
    ("ADD", OF_X, ("FULLY_CONNECTED", "state before", "r", "b")),
]
GATES = ("zi", "zf", "zg", "zo")  # in the order of the operator's inputs
MAX_GATHERS = 2  # states that are taken one by one; more are unpacked together
TANH = 4  # of ActivationFunctionType


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights that all steps of a loop share, and the operator of the file.

    Attributes:
        w, r, b: weights of x and of the state, and bias.
        gates: positions of the gates i, f, g and o in w, r and b; empty in an RNN.
        origin: position of the operator in the file.
    """

    w: int
    r: int
    b: int
    gates: tuple[int, ...]
    origin: int


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a loop.

    Attributes:
        x: its input.
        before, after: h, and c of an LSTM.
        results: all tensors that it computes.
    """

    x: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    results: frozenset[int]


@dataclass(frozen=True, slots=True)
class Loop:
    """Steps, each of which reads the state of the one before.

    Attributes:
        weights: weights that they share.
        steps: from the first to the last.
    """

    weights: Weights
    steps: list[Step]

    @property
    def states(self) -> list[int]:
        """h of each step."""
        return [step.after[0] for step in self.steps]

    @property
    def results(self) -> frozenset[int]:
        """All tensors that the steps compute."""
        return frozenset().union(*(step.results for step in self.steps))


def merge_steps(graph: LoweredGraph, file: Graph) -> LoweredGraph:
    """Returns a graph with one operator for each loop that spells out an RNN or LSTM.

    The steps stay if the first state is not zero, or a constant of the file, which may train; if
    something else reads their intermediate results; or if an x depends on a state.
    """
    if sum(node.op == "TANH" for node in graph.nodes) < 2:  # each step has one
        return graph
    return _StepMerger(graph, file).graph()


class _StepMerger(GraphBuilder):
    """Searches a graph for steps, and builds the new graph."""

    def __init__(self, graph: LoweredGraph, file: Graph) -> None:
        super().__init__(graph)
        self._file = file
        self._makers = {i: node for node in graph.nodes for i in node.outputs}
        self._readers: dict[int, list[Node]] = {}
        for node in graph.nodes:
            for i in node.inputs:
                self._readers.setdefault(i, []).append(node)

    def graph(self) -> LoweredGraph:
        """Returns the new graph; the old one if it has no such loop."""
        absent = set[int]()  # tensors that the nodes of the old graph no longer compute
        for loop in self._loops():
            if self._stands_alone(loop):
                absent |= loop.results
                absent.add(self._add(loop))
        if not absent:
            return self._graph
        others = [node for node in self._graph.nodes if absent.isdisjoint(node.outputs)]
        nodes = [*others, *self.nodes]
        results = {i for node in nodes for i in node.outputs}
        self.nodes = [*topological_order(nodes, set(range(len(self.tensors))) - results)]
        self.drop_unread()
        return super().graph()

    def _loops(self) -> list[Loop]:
        """Returns the loops of at least two steps."""
        last: dict[tuple[Weights, tuple[int, ...]], Loop] = {}
        loops: list[Loop] = []
        for node in self._graph.nodes:
            for weights, step in self._steps(node):
                loop = last.pop((weights, step.before), None)
                if loop is None and all(map(self._is_zero, step.before)):
                    loop = Loop(weights, [])
                    loops.append(loop)
                if loop is not None:
                    loop.steps.append(step)
                    last[weights, step.after] = loop
                    break
        return [loop for loop in loops if len(loop.steps) > 1]

    def _steps(self, node: Node) -> Iterator[tuple[Weights, Step]]:
        """Yields the steps that a node may end, with either of the two products as that of x."""
        h, makers = next(iter(node.outputs), ABSENT), self._makers
        for bindings, results in match(makers, ("TANH", SUM), h):
            weights = Weights(bindings["w"], bindings["r"], bindings["b"], (), node.origin)
            if self._fits(weights, bindings, h):
                yield weights, Step(bindings["x"], (bindings["state before"],), (h,), results)
        for end, outside in match(makers, STATE, h):
            for z, inside in match(makers, CELL, end["cell"], end):
                split = makers.get(z["zi"])
                parts = split.outputs if split and split.op == "SPLIT" else ()
                if split is None or sorted(z[gate] for gate in GATES) != sorted(parts):
                    continue
                order = tuple(parts.index(z[gate]) for gate in GATES)
                for bindings, below in match(makers, SUM, split.inputs[1]):
                    weights = Weights(
                        bindings["w"], bindings["r"], bindings["b"], order, node.origin
                    )
                    before = bindings["state before"], z["cell before"]
                    results = outside | inside | below | {*parts}
                    if self._fits(weights, bindings, h):
                        yield weights, Step(bindings["x"], before, (h, z["cell"]), results)

    def _fits(self, weights: Weights, bindings: Bindings, h: int) -> bool:
        """Whether weights and bias have the shapes of all gates."""
        tensors, units = self.tensors, self.tensors[h].spec.shape[-1]
        rows = (len(weights.gates) or 1) * units
        return (
            weights.b != ABSENT
            and bindings.get("none", ABSENT) == ABSENT
            and len(tensors[bindings["x"]].spec.shape) == 2
            and tensors[weights.r].spec.shape == (rows, units)
            and tensors[weights.b].spec.shape == (rows,)
        )

    def _is_zero(self, i: int) -> bool:
        maker, values = self._makers.get(i), self.tensors[i].data
        if maker is not None and maker.op == "FILL":
            values = self.tensors[maker.inputs[1]].data
        stored = i < len(self._file.tensors) and self._file.tensors[i].data is not None
        return values is not None and not stored and not values.any()

    def _stands_alone(self, loop: Loop) -> bool:
        """Whether only states are read elsewhere, and no x depends on one."""
        dependent, results = set(loop.states), loop.results
        inner = results - dependent
        if not inner.isdisjoint(self._graph.outputs):
            return False
        for node in self._graph.nodes:
            if not results.isdisjoint(node.outputs):
                continue
            if not inner.isdisjoint(node.inputs):
                return False
            if not dependent.isdisjoint(node.inputs):
                dependent.update(node.outputs)
        return dependent.isdisjoint(step.x for step in loop.steps)

    def _add(self, loop: Loop) -> int:
        """Adds the operator of a loop; returns the tensor of all states, (T, N, U)."""
        states, weights, origin = loop.states, loop.weights, loop.weights.origin
        spec = self.tensors[states[0]].spec
        packs = [n for n in self._readers.get(states[0], ()) if n.op == "PACK" and not n.attrs.axis]
        packed = next((n for n in packs if [*n.inputs] == states), None)
        y = packed.outputs[0] if packed else self._stack(states)
        x = self._input([step.x for step in loop.steps], origin)
        w, r, b = (self._gates(i, weights) for i in (weights.w, weights.r, weights.b))
        if weights.gates:
            peepholes, projection_and_state = [ABSENT] * 3, [ABSENT] * 4
            inputs = [x, *w, *r, *peepholes, *b, *projection_and_state]
        else:  # with a state, whose first value is not read
            inputs = [x, *w, *r, *b, self.constant(np.zeros(spec.shape, spec.dtype), formula=True)]
        options: dict[str, Any] = {"time_major": True, "fused_activation_function": TANH}
        name = LSTM if weights.gates else RNN
        self.nodes.append(node_of(name, inputs, (y,), origin, **options))
        self._add_states(loop, y, packed)
        return y

    def _add_states(self, loop: Loop, y: int, packed: Node | None) -> None:
        """Adds operators that take, from all states, those that others than `packed` read."""
        states, results, origin = loop.states, loop.results, loop.weights.origin
        readers = ([n for n in self._readers.get(i, ()) if n is not packed] for i in states)
        alone = [
            t
            for t, nodes in enumerate(readers)
            if states[t] in self._graph.outputs
            or not all(results.intersection(node.outputs) for node in nodes)
        ]
        if len(alone) > MAX_GATHERS:
            self.nodes.append(node_of("UNPACK", (y,), states, origin, axis=0, num=len(states)))
            return
        for t in alone:
            at = y, self.constant(np.array(t, np.int32))
            self.nodes.append(node_of("GATHER", at, (states[t],), origin, axis=0, batch_dims=0))

    def _input(self, xs: Sequence[int], origin: int) -> int:
        """Returns the inputs of all steps, (T, N, I): the tensor from which they come in order."""
        x = self._stack(xs)
        makers = [self._makers.get(i) for i in xs]
        source = makers[0].inputs[0] if makers[0] and makers[0].op == "GATHER" else x
        in_order = all(node and self._takes(node, source, t) for t, node in enumerate(makers))
        if in_order and self.tensors[source].spec == self.tensors[x].spec:
            return source
        self.nodes.append(node_of("PACK", xs, (x,), origin, axis=0))
        return x

    def _takes(self, node: Node, source: int, t: int) -> bool:
        """Whether a node gathers row t of a tensor."""
        if node.op != "GATHER" or node.inputs[0] != source:
            return False
        at = self.tensors[node.inputs[1]].data
        rows = not node.attrs.axis and not node.attrs.batch_dims
        return rows and at is not None and at.shape == () and bool(at == t)

    def _stack(self, parts: Sequence[int]) -> int:
        """Adds a tensor for several tensors along a new first axis."""
        spec = self.tensors[parts[0]].spec
        return self.tensor("", (len(parts), *spec.shape), spec)

    def _gates(self, i: int, weights: Weights) -> list[int]:
        """Splits weights into those of the gates i, f, g and o; an RNN has no gates."""
        if not weights.gates:
            return [i]
        parts = self.split(i, 0, len(GATES), weights.origin)
        return [parts[k] for k in weights.gates]
