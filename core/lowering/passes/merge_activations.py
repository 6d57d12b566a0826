"""Merges the operators of an activation function into one.

Files spell out functions for which their converter had no operator: swish as x · LOGISTIC(x), hard
swish as x · RELU6(x + 3) / 6, GELU by TANH or Erf in five to nine operators, in any order of
factors. One operator passes over memory once in each direction, instead of up to 25 times.

Elementwise operators that compute a tensor from another one and scalars are a function of one
variable. It is recognized by its values at some points. Its scalars are then no weights, even if a
converter gave them axes.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import erf, pi, sqrt
from typing import Any, NamedTuple

import numpy as np

from odt.core.lowering.binding import row_of
from odt.core.model.graph import Graph, LoweredGraph, Node
from odt.kernels.rows.opdef import Array

MAX_OPERATORS = 12  # operators of a function, at most
RTOL, ATOL = 1e-6, 1e-7  # of equal functions: scalars in files are float32


class Activation(NamedTuple):
    """An activation function with an operator: its options, and its values at some points."""

    op: str
    options: Mapping[str, Any]
    curve: Array


def _logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "DIV": np.divide,
    "SQUARE": np.square,
    "TANH": np.tanh,
    "LOGISTIC": _logistic,
    "RELU6": lambda x: np.clip(x, 0, 6),
    "CUSTOM:Erf": np.vectorize(erf, [np.float64]),
}
# Each activation function has one of these.
CURVES = frozenset({"TANH", "LOGISTIC", "RELU6", "CUSTOM:Erf"})


@cache  # few files need them
def _points() -> Array:
    """The values of a variable at which functions are compared."""
    return np.linspace(-7, 7, 57)


@cache
def _activations() -> Sequence[Activation]:
    x = _points()
    phi2 = 1 + FUNCTIONS["CUSTOM:Erf"](x * sqrt(0.5))  # twice the normal distribution function
    tanh = np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))
    return (
        Activation("SWISH", {}, x * _logistic(x)),
        Activation("HARD_SWISH", {}, x * np.clip(x + 3, 0, 6) / 6),
        Activation("GELU", {"approximate": True}, x * (1 + tanh) / 2),
        Activation("GELU", {"approximate": False}, x * phi2 / 2),
    )


def merge_activations(graph: LoweredGraph, file: Graph) -> LoweredGraph:
    """Returns a graph with one operator for each activation function that is spelled out.

    The operators stay if one of their intermediate results is read elsewhere. All passes take the
    graph of the file; this one does not need it.
    """
    readers = graph.count_reads()
    makers: dict[int, Node] = {}
    inner_results: set[int] = set()
    for node in graph.nodes:
        y = node.outputs[0]
        makers[y] = node
        for x, activation, inner in _functions(graph, y, makers):
            uses = Counter(i for result in (*inner, y) for i in makers[result].inputs)
            if all(uses[i] == readers[i] for i in inner):
                op, options = activation.op, activation.options
                attrs = row_of(op).attrs(options, {})
                makers[y] = replace(node, op=op, inputs=(x,), options=options, attrs=attrs)
                inner_results |= inner
                break
    nodes = [makers[n.outputs[0]] for n in graph.nodes if n.outputs[0] not in inner_results]
    return replace(graph, nodes=tuple(nodes)) if inner_results else graph


def _functions(
    graph: LoweredGraph, y: int, makers: Mapping[int, Node]
) -> Iterator[tuple[int, Activation, set[int]]]:
    """Yields each x of which y is an activation: x, the function, the tensors between."""
    computed: dict[int, Node] = {}
    before = [y]
    if makers[y].op in ("MUL", "DIV"):  # the last operator of each function
        queue = deque(before)
        while queue:
            i = queue.popleft()
            node = makers.get(i)
            if node is not None and node.op in FUNCTIONS and len(computed) < MAX_OPERATORS:
                computed[i] = node
                others = (k for k in node.inputs if graph.tensors[k].scalar is None)
                new = [k for k in others if k not in before]
                before += new
                queue += new
    if not any(node.op in CURVES for node in computed.values()):
        return
    reads = Counter(i for node in computed.values() for i in node.inputs)
    for x in before[1:]:
        if reads[x] == 1:  # the functions are products of x and a function of x
            continue
        values = {x: _points()}
        with np.errstate(all="ignore"):
            result = _value(graph, y, computed, values)
        if result is None or graph.tensors[x].spec != graph.tensors[y].spec:
            continue
        for activation in _activations():
            curve = activation.curve
            # np.allclose would take most of the time of this pass
            if np.all(np.abs(result - curve) <= ATOL + RTOL * np.abs(curve)):
                yield x, activation, values.keys() - {x, y}


def _value(
    graph: LoweredGraph, y: int, nodes: Mapping[int, Node], values: dict[int, Array]
) -> Array | None:
    """Computes y from the known values, to which it adds those between; None if others are read."""
    scalar = graph.tensors[y].scalar
    if scalar is not None:
        return scalar
    if y not in values and y in nodes:
        operands = [_value(graph, i, nodes, values) for i in nodes[y].inputs]
        if all(a is not None for a in operands):
            values[y] = FUNCTIONS[nodes[y].op](*operands)
    return values.get(y)
