"""Loops that spell out an RNN or LSTM are one operator if nothing else reads what is between."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from support.lowering import lower
from support.networks import ArrayData, Net
from support.rewriting import check_same_training

from odt.core.lowering.passes.merge_steps import LSTM, RNN
from odt.core.model.graph import ABSENT, Graph

STEPS, DEPTH, UNITS = 4, 5, 6
State = tuple[int, ...]
Make = Callable[["Loop"], int]


class Loop(Net):
    """Steps as converters write them, which belong to one operator of the file."""

    def __init__(self) -> None:
        super().__init__()
        self.x = self.input(1, STEPS, DEPTH)
        self.by_time = self.add(
            "TRANSPOSE", (self.x, self.constant([1, 0, 2], np.int32)), (STEPS, 1, DEPTH)
        )
        self.zero = self.fill(0)

    def fill(self, value: float) -> int:
        shape = self.constant([1, UNITS], np.int32)
        return self.add("FILL", (shape, self.constant(value)), (1, UNITS))

    def row(self, t: int) -> int:
        at = self.constant(t, np.int32)
        return self.add("GATHER", (self.by_time, at), (1, DEPTH), axis=0)

    def of(self, op: str, *inputs: int) -> int:
        return self.add(op, inputs, self.tensors[inputs[0]].spec.shape)

    def weights(self, gates: int, depth: int = DEPTH) -> tuple[int, int, int]:
        rows = gates * UNITS
        return self.weight(rows, depth), self.weight(rows, UNITS), self.weight(rows)

    def sum(self, x: int, h: int, weights: Sequence[int], *, fused: bool = False) -> int:
        w, r, b = weights
        shape = (1, self.tensors[w].spec.shape[0])
        of_x = self.add("FULLY_CONNECTED", (x, w, b if fused else ABSENT), shape)
        of_h = self.add("FULLY_CONNECTED", (h, r, ABSENT), shape)
        z = self.of("ADD", of_x, of_h)
        return z if fused else self.of("ADD", z, b)

    def rnn(self, x: int, state: State, weights: Sequence[int]) -> State:
        return (self.of("TANH", self.sum(x, state[0], weights)),)

    def lstm(
        self, x: int, state: State, weights: Sequence[int], gates: str = "ifgo", fused: bool = False
    ) -> State:
        h, c = state
        z, axis = self.sum(x, h, weights, fused=fused), self.constant(1, np.int32)
        parts = [self._tensor((1, UNITS)) for _ in gates]
        first = self.add("SPLIT", (axis, z), (1, UNITS), num_splits=4)
        self.nodes[-1] = replace(self.nodes[-1], outputs=(first, *parts[1:]))
        z_of = dict(zip(gates, (first, *parts[1:]), strict=True))
        i, f, o = (self.of("LOGISTIC", z_of[gate]) for gate in "ifo")
        kept = self.of("MUL", f, c)
        c = self.of("ADD", kept, self.of("MUL", i, self.of("TANH", z_of["g"])))
        return self.of("MUL", o, self.of("TANH", c)), c

    def run(
        self, step: Callable[..., State], xs: Sequence[int], weights: Sequence[int]
    ) -> list[int]:
        """Runs all steps from zero; returns all h."""
        state: State = (self.zero,) if step == self.rnn else (self.zero, self.zero)
        states = []
        for x in xs:
            state = step(x, state, weights)
            states.append(state[0])
        return states

    def rows(self) -> list[int]:
        return [self.row(t) for t in range(STEPS)]

    def pack(self, states: Sequence[int]) -> int:
        """All states as one row."""
        together = self.add("PACK", states, (len(states), 1, UNITS), axis=0, values_count=STEPS)
        size = len(states) * UNITS
        back = self.add(
            "TRANSPOSE",
            (together, self.constant([1, 0, 2], np.int32)),
            (1, len(states), UNITS),
        )
        return self.add("RESHAPE", (back, self.constant([-1, size], np.int32)), (1, size))

    def network(self, y: int, *outputs: int) -> Graph:
        """A dense layer, with all steps as one operator of the file."""
        loop = len(self.nodes)
        graph = self.graph(self.dense(y, 3), *outputs)
        nodes = [replace(n, origin=1 if 1 <= n.origin < loop else n.origin) for n in graph.nodes]
        return replace(graph, nodes=tuple(nodes))


def lstm(loop: Loop) -> int:
    return loop.pack(loop.run(loop.lstm, loop.rows(), loop.weights(4)))


def last_state(loop: Loop) -> int:
    return loop.run(loop.lstm, loop.rows(), loop.weights(4))[-1]


def other_order(loop: Loop) -> int:
    def step(x: int, state: State, weights: Sequence[int]) -> State:
        return loop.lstm(x, state, weights, gates="fiog", fused=True)

    return loop.run(step, loop.rows(), loop.weights(4))[-1]


def backwards(loop: Loop) -> int:
    return loop.pack(loop.run(loop.lstm, loop.rows()[::-1], loop.weights(4)))


def two_layers(loop: Loop) -> int:
    states = loop.run(loop.lstm, loop.rows(), loop.weights(4))
    return loop.run(loop.lstm, states, loop.weights(4, UNITS))[-1]


def each_state(loop: Loop) -> int:
    first, *others = loop.run(loop.lstm, loop.rows(), loop.weights(4))
    for h in others:
        first = loop.of("ADD", first, loop.of("RELU", h))
    return first


def rnn(loop: Loop) -> int:
    return loop.pack(loop.run(loop.rnn, loop.rows(), loop.weights(1)))


def first_state(loop: Loop) -> int:
    loop.zero = loop.fill(0.5)
    return last_state(loop)


def stored_state(loop: Loop) -> int:
    loop.zero = loop.constant(np.zeros((1, UNITS)))  # trains
    return last_state(loop)


def other_weights(loop: Loop) -> int:
    all_weights = iter([loop.weights(4) for _ in range(STEPS)])

    def step(x: int, state: State, weights: Sequence[int]) -> State:
        return loop.lstm(x, state, next(all_weights))

    return loop.run(step, loop.rows(), ())[-1]


def cell(loop: Loop) -> int:
    h = last_state(loop)
    cells = [n.outputs[0] for n in loop.nodes if n.op == "ADD"]
    return loop.of("ADD", h, cells[-1])


def feedback(loop: Loop) -> int:
    weights, back = loop.weights(4), loop.weight(DEPTH, UNITS)
    state: State = (loop.zero, loop.zero)
    for x in loop.rows():
        read = loop.add("FULLY_CONNECTED", (state[0], back, ABSENT), (1, DEPTH))
        state = loop.lstm(loop.of("ADD", x, read), state, weights)
    return state[0]


MERGED: dict[Make, list[str]] = {
    lstm: [LSTM],
    last_state: [LSTM],
    other_order: [LSTM],
    backwards: [LSTM],
    two_layers: [LSTM, LSTM],
    each_state: [LSTM],
    rnn: [RNN],
}
KEPT: tuple[Make, ...] = (first_state, stored_state, other_weights, cell, feedback)


def network(make: Make) -> Graph:
    loop = Loop()
    return loop.network(make(loop))


def recurrent(graph: Graph) -> list[str]:
    """The recurrent operators, which have no activation of gates beside them."""
    ops = [node.op for node in lower(graph, 2).nodes]
    found = [op for op in ops if op in (LSTM, RNN)]
    assert not found or not {"LOGISTIC", "TANH"} & {*ops}
    return found


@pytest.mark.parametrize("make", MERGED)
def test_a_loop_is_one_operator(make: Make) -> None:
    assert recurrent(network(make)) == MERGED[make]


@pytest.mark.parametrize("make", KEPT)
def test_others_stay(make: Make) -> None:
    assert recurrent(network(make)) == []


def test_states_of_the_model_and_of_several_operators_stay() -> None:
    loop = Loop()
    h = last_state(loop)
    assert recurrent(loop.graph(loop.dense(h, 3))) == []  # each step is an operator of the file
    gate = next(n.outputs[0] for n in loop.nodes if n.op == "LOGISTIC")
    assert recurrent(loop.network(h, gate)) == []
    assert recurrent(loop.network(h, h)) == [LSTM]


def test_rows_in_order_are_not_copied() -> None:
    ops = {make: [n.op for n in lower(network(make), 2).nodes] for make in (last_state, backwards)}
    assert "PACK" not in ops[last_state]
    assert "PACK" in ops[backwards]


@pytest.mark.parametrize("kernels", ["numpy", "compiled"])
@pytest.mark.parametrize("make", MERGED)
def test_it_trains_the_same(make: Make, kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kernels == "numpy":
        monkeypatch.setenv("ODT_KERNELS", "numpy")
    graph = network(make)
    random = np.random.default_rng(0)
    x = random.standard_normal((4, STEPS, DEPTH), np.float32)
    data = ArrayData([x], [random.standard_normal((4, 3), np.float32)])
    check_same_training("merge_steps", graph, data, monkeypatch, moved=1e-5, atol=1e-6)
