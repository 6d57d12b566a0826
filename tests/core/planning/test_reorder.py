"""Another order of the calls: the same numbers in less memory."""

import numpy as np
import pytest
from support.networks import Net
from support.rewriting import GRAPHS, plan_of, stored, trained

from odt.core.planning.memory import plan_memory
from odt.core.planning.plan import Delivery, Plan
from odt.core.planning.rewrites.choose_dropped import choose_dropped
from odt.core.planning.rewrites.compress import choose_digests, use_digests
from odt.core.planning.rewrites.recompute import recompute
from odt.core.planning.rewrites.reorder import _Segments, choose_order, entry_name, reorder
from odt.core.planning.verify import faults
from odt.kernels.native.library import is_available

STORED = {
    **GRAPHS,
    "kws": stored("models/kws-yes-no-dwconv128x32.tflite"),
    "mtcnn": stored("models/mtcnn-rnet.tflite"),
}


def backwards(plan: Plan) -> tuple[str, ...]:
    """An order built call by call, whether it is better or not."""
    names = [entry_name(step) for step in plan.entries]
    return tuple(names[k] for k in _Segments(plan).order(back=True))


def order_of(plan: Plan) -> tuple[str, ...]:
    return choose_order(plan, plan_memory(plan).nbytes)


def ordered(plan: Plan) -> Plan:
    return reorder(plan, backwards(plan))


def lean(plan: Plan) -> Plan:
    plan = ordered(plan)
    plan = use_digests(plan, choose_digests(plan))
    return recompute(plan, next(choose_dropped(plan, [0])))


@pytest.mark.parametrize("rewrite", [ordered, lean])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("name", STORED)
def test_ten_steps_give_the_same_bits(
    name: str, whole: bool, rewrite: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(rewrite)
    graph = STORED[name]()
    plan = plan_of(graph, 2)
    assert ordered(plan).entries != plan.entries
    with monkeypatch.context() as patch:
        usual = trained(graph, patch, lambda plan: plan, whole)
    assert np.isfinite(usual).all()
    assert usual.tobytes() == trained(graph, monkeypatch, rewrite, whole).tobytes()


@pytest.mark.parametrize("name", ["kws", "mtcnn"])
def test_the_arena_shrinks_and_nothing_is_overwritten(name: str) -> None:
    plan = plan_of(STORED[name](), 4)
    order = order_of(plan)
    less = reorder(plan, order)
    share = 0.95 if is_available() else 1  # NumPy's columns of one convolution are the peak
    assert plan_memory(less).nbytes <= share * plan_memory(plan).nbytes
    assert not faults(less, plan_memory(less))
    assert sorted(map(entry_name, less.entries)) == sorted(map(entry_name, plan.entries))


@pytest.mark.skipif(not is_available(), reason="beside NumPy's columns, an order gains")
def test_an_order_that_gains_nothing_is_left() -> None:
    plan = plan_of(GRAPHS["mnist"](), 8)
    assert order_of(plan) == ()
    assert reorder(plan, ()) is plan


def test_an_order_holds_for_any_batch() -> None:
    graph = STORED["kws"]()
    order = order_of(plan_of(graph, 4))
    assert order
    names = [[entry_name(s) for s in reorder(plan_of(graph, n), order).entries] for n in (1, 4)]
    assert names[0] == names[1]


def test_no_weight_changes_before_what_may_be_computed_again() -> None:
    """A call of the forward phase may be repeated until the last reader of what it leads to."""
    plan = ordered(plan_of(GRAPHS["branches"](), 4))
    every = frozenset(n for n, v in plan.values.items() if v.base is None)
    assert any(isinstance(s, Delivery) for s in plan.entries)
    again = recompute(plan, every)  # a plan refuses to read what has been updated
    assert len(again.entries) > len(plan.entries)


def test_the_dependencies_of_deep_models_grow_with_their_layers() -> None:
    net = Net()
    y = net.input(1, 8)
    for _ in range(100):
        y = net.dense(y, 8)
    segments = _Segments(plan_of(net.graph(y), 4))
    assert sum(map(len, segments.after)) < 5 * len(segments.after)
    assert sorted(segments.order(back=True)) == list(range(segments.count))
