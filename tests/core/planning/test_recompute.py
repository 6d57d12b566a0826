"""Activations that are dropped and computed again: the same numbers in less memory."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.networks import Net
from support.rewriting import GRAPHS, plan_of, trained

from odt.core.planning.lifetimes import lifetimes_without_overlays, live_bytes
from odt.core.planning.memory import plan_memory
from odt.core.planning.plan import Call, Plan
from odt.core.planning.rewrites import choose_dropped as module
from odt.core.planning.rewrites.choose_dropped import Replay, choose_dropped
from odt.core.planning.rewrites.recompute import TouchedValues, recompute
from odt.core.planning.verify import faults
from odt.kernels.native.library import is_available
from odt.kernels.rows.opdef import TensorSpec

CALL = 2000  # bytes of a repeated call beside its values


def all_that_helps(plan: Plan) -> frozenset[str]:
    return next(choose_dropped(plan, [0]))


def rewritten(plan: Plan) -> Plan:
    return recompute(plan, all_that_helps(plan))


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("name", GRAPHS)
def test_ten_steps_give_the_same_bits(
    name: str, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = GRAPHS[name]()
    with monkeypatch.context() as patch:
        usual = trained(graph, patch, lambda plan: plan, whole)
    again = trained(graph, monkeypatch, rewritten, whole)
    assert np.isfinite(usual).all()
    assert usual.tobytes() == again.tobytes()


@pytest.mark.parametrize(("name", "share"), [("resnet8", 0.9), ("mobilenet", 0.75)])
def test_the_arena_shrinks_and_nothing_is_overwritten(name: str, share: float) -> None:
    plan = plan_of(GRAPHS[name](), 4)
    before = plan_memory(plan)
    less = recompute(plan, all_that_helps(plan))
    after = plan_memory(less)
    if is_available() or name != "resnet8":  # NumPy's columns of one convolution are the peak
        assert after.nbytes < share * before.nbytes
    assert after.nbytes <= before.nbytes
    assert not faults(less, after)


def test_no_more_is_dropped_than_the_target_asks_for() -> None:
    plan = plan_of(GRAPHS["mobilenet"](), 4)
    usual = plan_memory(plan).nbytes
    targets = [int(usual * share) for share in (1.0, 0.95, 0.8, 0.0)]
    choices = list(choose_dropped(plan, targets))
    counts = [len(dropped) for dropped in choices]
    assert 0 == counts[0] < counts[1] < counts[2] < counts[3]
    for target, dropped in zip(targets[1:3], choices[1:3], strict=True):
        assert next(choose_dropped(plan, [target])) == dropped
        assert plan_memory(recompute(plan, dropped)).nbytes <= target * 1.03
        less = recompute(plan, next(choose_dropped(plan, [target], CALL)))
        calls = CALL * (len(less.entries) - len(plan.entries))
        assert calls + plan_memory(less).nbytes <= target * 1.03


def test_no_call_is_made_more_than_twice() -> None:
    plan = plan_of(GRAPHS["branches"](), 4)
    saved = [
        v
        for s in plan.entries[: plan.forward_entries]
        if isinstance(s, Call)
        for v in s.values(s.writes)
        if v not in plan.losses
    ]
    backward = {
        plan.root(v)
        for s in plan.entries[plan.forward_entries :]
        if isinstance(s, Call)
        for v in s.values(s.reads)
    }
    less = recompute(plan, backward.intersection(saved))
    labels = [s.label for s in less.entries if isinstance(s, Call)]
    again = [label for label in labels if label.endswith(" recomputed")]
    assert len(again) == len(set(again)) > 3
    assert not faults(less, plan_memory(less))


def test_a_weight_is_delivered_after_all_that_is_made_again_with_it() -> None:
    """NOT_EQUAL has no gradient, but SELECT_V2 needs what it makes, after MUL is done."""
    net = Net()
    y, w = net.dense(net.input(1, 40), 40), net.weight(1, 40)
    c = net.add("NOT_EQUAL", (y, w), (1, 40))
    net.tensors[c] = replace(net.tensors[c], spec=TensorSpec((1, 40), np.dtype(np.bool_)))
    a, b = (net.add(op, (y,), (1, 40)) for op in ("SIN", "COS"))
    y = net.add("SELECT_V2", (c, a, b), (1, 40))
    plan = plan_of(net.graph(net.add("TANH", (net.add("MUL", (y, w), (1, 40)),), (1, 40))), 4)
    less = recompute(plan, [f"t{c}"])
    assert [s.label for s in less.entries if isinstance(s, Call) and "recomputed" in s.label] == [
        "1 NOT_EQUAL recomputed"
    ]
    assert not faults(less, plan_memory(less))


@pytest.mark.parametrize("name", GRAPHS)
def test_the_search_counts_the_bytes_of_the_rewritten_plan(name: str) -> None:
    plan = plan_of(GRAPHS[name](), 4)
    values = TouchedValues(plan)
    rng = np.random.default_rng(0)
    made = [values.names[v] for v in values.first_later]
    saved = sorted(set(made).difference(plan.losses))
    for count in (0, 1, 2, len(saved) // 2, len(saved)):
        dropped = [str(name) for name in rng.choice(saved, count, replace=False)]
        less = recompute(plan, dropped)
        alive = live_bytes(less, lifetimes_without_overlays(less))
        assert Replay(values, values.calls(dropped)).most == max(alive)
        repeated = len(less.entries) - len(plan.entries)
        assert Replay(values, values.calls(dropped), 64).most == max(alive) + 64 * repeated


def test_a_deep_model_is_evaluated_fewer_times_than_it_has_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = Net()
    y = net.input(1, 40)
    for _ in range(200):
        y = net.add("TANH", (net.add("SIN", (net.dense(y, 40),), (1, 40)),), (1, 40))
    plan = plan_of(net.graph(y), 4)
    replays = 0

    class Counted(Replay):
        def __init__(self, *arguments: Any) -> None:
            nonlocal replays
            replays += 1
            super().__init__(*arguments)

    monkeypatch.setattr(module, "Replay", Counted)
    dropped = next(choose_dropped(plan, [plan_memory(plan).nbytes // 2]))
    assert len(dropped) > 100
    assert replays < len(dropped) / 2


def test_values_with_many_paths_between_them_are_chosen_quickly() -> None:
    net = Net()
    y = net.dense(net.input(1, 40), 40)
    for _ in range(60):  # 2⁶⁰ paths
        y = net.add("MUL", (net.add("SIN", (y,), (1, 40)), net.add("COS", (y,), (1, 40))), (1, 40))
    plan = plan_of(net.graph(y), 4)
    assert all_that_helps(plan)
    values = TouchedValues(plan)
    saved = values.first_later.keys() - values.of(plan.losses)
    replay = Replay(values, {values.maker[v] for v in saved})
    assert all(replay.least_with(v) <= plan_memory(plan).separate for v in saved)
