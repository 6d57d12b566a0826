"""Every pass has a place in the order; one that has nothing to do returns the graph it got."""

import pytest
from support.networks import Net
from support.paths import ROOT

from odt.core.lowering.lower import LoweredGraphs
from odt.core.lowering.passes.order import AFTER_BATCHING, BEFORE_BATCHING, Pass
from odt.kernels.registry import find_operator

PASSES = (*BEFORE_BATCHING, *AFTER_BATCHING)


def test_every_module_of_passes_has_a_place_in_the_order() -> None:
    modules = {path.stem for path in (ROOT / "core/lowering/passes").glob("*.py")}
    missing = modules - {"__init__", "order"} - {rewrite.name for rewrite in PASSES}
    assert not missing, f"core/lowering/passes/order.py: add {', '.join(sorted(missing))}"
    assert len(PASSES) == len(modules) - 2
    tests = ROOT / "tests/core/lowering/passes"
    untested = [p.name for p in PASSES if not (tests / f"test_{p.name}.py").exists()]
    assert not untested, f"tests/core/lowering/passes: add tests of {', '.join(untested)}"


@pytest.mark.parametrize("rewrite", PASSES, ids=lambda rewrite: rewrite.name)
def test_a_pass_looks_for_operators_that_there_are(rewrite: Pass) -> None:
    unknown = [op for op in rewrite.operators if find_operator(op) is None]
    assert rewrite.operators, f"{rewrite.name}: name the operators of graphs that it rewrites"
    assert not unknown, f"{rewrite.name}: no operator is named {', '.join(unknown)}"


@pytest.mark.parametrize("rewrite", PASSES, ids=lambda rewrite: rewrite.name)
def test_a_pass_without_work_returns_the_same_graph(rewrite: Pass) -> None:
    net = Net()
    graph = net.graph(net.dense(net.add("TANH", (net.input(1, 3),), (1, 3)), 2))
    lowered = LoweredGraphs(graph).as_in_file
    assert rewrite(lowered, graph) is lowered
