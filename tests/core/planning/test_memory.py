"""Memory plans: no value is overwritten while it is needed, and the arena is small."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest
from support.lowering import lower
from support.networks import Net

from odt.core.model.graph import Graph
from odt.core.planning import memory
from odt.core.planning.autodiff import inference_plan, training_plan
from odt.core.planning.lifetimes import Lifetime, lifetimes
from odt.core.planning.memory import ALIGNMENT, Block, place, plan_memory
from odt.core.planning.output_loss import Loss
from odt.core.planning.plan import Plan
from odt.core.planning.verify import faults
from odt.errors import OptionError

RELU = 1


def chain() -> Graph:
    net = Net()
    y = net.input(1, 40)
    for units in (30, 50, 20, 10):
        y = net.dense(y, units, fused_activation_function=RELU)
    return net.graph(y)


def branches() -> Graph:
    """A value with three readers, a tensor twice in one node, views, and tied weights."""
    net = Net()
    x = net.dense(net.input(1, 16), 16, fused_activation_function=RELU)
    w = net.weight(16, 16)
    a = net.add("FULLY_CONNECTED", (x, w), (1, 16))
    b = net.add("RELU", (net.add("FULLY_CONNECTED", (x, w), (1, 16)),), (1, 16))
    twice = net.add("ADD", (a, a), (1, 16))
    total = net.add("ADD", (twice, net.add("ADD", (b, x), (1, 16))), (1, 16))
    y = net.add("RESHAPE", (total, net.constant([1, 4, 4], np.int32)), (1, 4, 4))
    return net.graph(y)


def plans() -> list[Plan]:
    found = []
    for graph in (chain(), branches()):
        for batch in (1, 6):
            lowered = lower(graph, batch)
            everything = frozenset(n.origin for n in graph.nodes)
            loss = Loss("mean_squared_error", graph.outputs[0], {})
            found.append(inference_plan(lowered))
            for trainable in (everything, frozenset({0}), frozenset({len(graph.nodes) - 1})):
                for outputs in (False, True):
                    found.append(training_plan(lowered, [loss], trainable, outputs=outputs))
    return found


@pytest.mark.parametrize("planner", ["none", "first_fit"])
def test_no_value_is_overwritten_while_it_is_needed(planner: str) -> None:
    for plan in plans():
        assert not faults(plan, plan_memory(plan, planner))


def test_the_check_sees_an_overlap_a_wrong_alignment_and_an_outsider() -> None:
    plan = plans()[1]
    memory = plan_memory(plan, "none")
    name = plan.values[next(iter(memory.offsets))].name
    for offset in (memory.offsets[name] + 8, memory.nbytes, 0):
        moved = {n: offset if n != name else memory.offsets[n] for n in memory.offsets}
        assert faults(plan, replace(memory, offsets=moved))


def live_bytes(plan: Plan, alive: Mapping[str, Lifetime]) -> int:
    """The most bytes alive at one entry: a lower bound of an arena without overlays."""
    changes = [0] * (len(plan.entries) + 1)
    for name, life in alive.items():
        size, end = plan.values[name].spec.nbytes, len(plan.entries)
        changes[min(max(life.first, 0), end)] += size
        changes[min(life.last + 1, end)] -= size
    return max(accumulate(changes[:-1]), default=0)


def test_the_planner_needs_less_than_the_bound_without_replacements() -> None:
    for plan in plans():
        memory = plan_memory(plan)
        bound = live_bytes(plan, lifetimes(plan))
        assert memory.nbytes <= bound * 1.05 + ALIGNMENT * len(memory.offsets)
        assert memory.nbytes <= plan_memory(plan, "none").nbytes == memory.separate


def test_a_limit_that_the_arena_keeps_changes_nothing() -> None:
    for plan in plans():
        memory = plan_memory(plan)
        assert plan_memory(plan, below=memory.nbytes + 1) == memory
        for limit in (memory.nbytes, memory.nbytes // 2):
            assert plan_memory(plan, below=limit).nbytes >= limit


def test_random_blocks_never_meet() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        blocks = []
        for k in range(int(rng.integers(1, 60))):
            first = int(rng.integers(0, 40))
            life = Lifetime(first, first + int(rng.integers(0, 12)))
            blocks.append(Block((f"v{k}",), int(rng.integers(1, 5000)), life))
        offsets, nbytes = place(blocks)
        for a in blocks:
            start = offsets[a.values[0]]
            assert start % ALIGNMENT == 0
            assert start + a.nbytes <= nbytes
            for b in blocks:
                other = offsets[b.values[0]]
                apart = start + a.nbytes <= other or other + b.nbytes <= start
                assert a is b or apart or not a.lifetime.meets(b.lifetime)
        alive = max(
            sum(b.nbytes for b in blocks if b.lifetime.first <= t <= b.lifetime.last)
            for t in range(60)
        )
        assert nbytes >= alive


def test_an_unknown_planner_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODT_PLANNER", "magic")
    with pytest.raises(OptionError, match="must be none or first_fit, but got magic"):
        plan_memory(plans()[0])


def test_activations_below_the_deepest_trained_operator_are_not_kept() -> None:
    graph = chain()
    lowered = lower(graph, 64)
    loss = Loss("mean_squared_error", graph.outputs[0], {})
    whole = plan_memory(training_plan(lowered, [loss], frozenset(range(4))))
    head = training_plan(lowered, [loss], frozenset({3}))
    assert plan_memory(head).nbytes < 0.7 * whole.nbytes
    assert "2 FULLY_CONNECTED d." not in str(head)
    assert len(head.parameters) == 2


@pytest.mark.parametrize("seed", range(8))
def test_many_blocks_are_placed_as_few_are(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 100, 200)
    last = first + rng.integers(0, (1, 5, 60)[seed % 3], 200, endpoint=True)
    sizes = rng.choice([0, 4, 64, 100, 1000], 200)
    rows = zip(sizes.tolist(), first.tolist(), last.tolist(), strict=True)
    blocks = [Block((f"v{k}",), n, Lifetime(a, b)) for k, (n, a, b) in enumerate(rows)]
    expected = place(blocks)
    assert place(blocks, expected[1] + 1) == expected
    stopped = place(blocks, expected[1])
    assert stopped[1] >= expected[1]
    monkeypatch.setattr(memory, "MAX_IN_A_LIST", 0)
    assert place(blocks) == expected
    assert place(blocks, expected[1]) == stopped
