"""Powers by constants are products and roots."""

import numpy as np
import pytest
from support.lowering import lower
from support.networks import ArrayData, Net
from support.rewriting import check_same_training

from odt.core.lowering.lower import LoweredGraphs
from odt.core.lowering.passes.replace_powers import replace_powers
from odt.core.model.graph import Graph
from odt.kernels.rows.opdef import Array

REPLACED = {2.0: ["SQUARE"], 3.0: ["SQUARE", "MUL"], 0.5: ["SQRT"], -0.5: ["RSQRT"]}


def network(exponent: float | Array, op: str = "LOGISTIC") -> Graph:
    """A dense layer and powers of positive numbers, or with TANH also of negative ones."""
    net = Net()
    x = net.add(op, (net.dense(net.input(1, 6), 5),), (1, 5))
    return net.graph(net.add("POW", (x, net.constant(exponent)), (1, 5)))


@pytest.mark.parametrize(("exponent", "made"), REPLACED.items())
def test_a_power_by_a_scalar_is_replaced(exponent: float, made: list[str]) -> None:
    assert [n.op for n in lower(network(exponent), 2).nodes[-len(made) :]] == made


@pytest.mark.parametrize("exponent", [1.7, np.full(1, 2.0), np.full(5, 3.0)])
def test_other_powers_stay(exponent: float | Array) -> None:
    graph = network(exponent)
    assert lower(graph, 2).nodes[-1].op == "POW"
    lowered = LoweredGraphs(graph).as_in_file
    assert replace_powers(lowered, graph) is lowered


@pytest.mark.parametrize(
    ("dtype", "axes"), [(np.int32, ()), (np.float32, (1, 1, 1))], ids=["integers", "more axes"]
)
def test_powers_with_another_result_stay(dtype: type, axes: tuple[int, ...]) -> None:
    net = Net(dtype)
    x, exponent = net.input(1, 5), net.constant(np.full(axes, 2))
    graph = net.graph(net.add("POW", (x, exponent), (1, 1, 5) if axes else (1, 5)))
    lowered = LoweredGraphs(graph).as_in_file
    assert replace_powers(lowered, graph) is lowered


@pytest.mark.parametrize(
    ("exponent", "op"), [*((e, "LOGISTIC") for e in REPLACED), (2.0, "TANH"), (3.0, "TANH")]
)
def test_it_trains_the_same(exponent: float, op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((4, 6), np.float32)
    data = ArrayData([x], [random.standard_normal((4, 5), np.float32)])
    graph = network(exponent, op)
    check_same_training("replace_powers", graph, data, monkeypatch, moved=1e-5, atol=1e-6)
