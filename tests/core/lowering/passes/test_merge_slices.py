"""Slices of one tensor become one SPLIT_V where their gradients would be mostly empty."""

import numpy as np
import pytest
from support.lowering import lower
from support.networks import ArrayData, Net
from support.rewriting import check_same_training

from odt.core.model.graph import Graph


def slices(*ends: tuple[int, int], axis: int = 1, shrink: bool = False, op: str = "") -> Graph:
    """Parts [begin, end) of (1, 6, 6) along an axis, each with a weight of its own, added up."""
    net = Net()
    x = net.add("TANH", [net.input(1, 6, 6)], (1, 6, 6))
    x = net.add("MUL", (x, net.weight(6, 6)), (1, 6, 6))
    terms = []
    for begin, end in ends:
        shape = [1, 6, 6]
        shape[axis] = end - begin
        first, last = [0, 0, 0], [1, 6, 6]
        first[axis], last[axis] = begin, end
        if op == "SLICE":
            statics = [net.constant(v, np.int32) for v in (first, shape)]
            y = net.add("SLICE", (x, *statics), shape)
        else:
            statics = [net.constant(v, np.int32) for v in (first, last, (1, 1, 1))]
            if shrink:
                del shape[axis]
            y = net.add("STRIDED_SLICE", (x, *statics), shape, shrink_axis_mask=shrink << axis)
        y = net.add("MUL", (y, net.weight(*shape[1:])), shape)
        axes = net.constant(range(1, len(shape)), np.int32)
        terms.append(net.add("SUM", (y, axes), (1,), keep_dims=False))
    y = net.add("ADD_N", terms, (1,)) if len(terms) > 1 else terms[0]
    y = net.add("RESHAPE", (y, net.constant([1, 1], np.int32)), (1, 1))
    return net.graph(y)


SPLIT = {
    "all, one each": slices(*((k, k + 1) for k in range(6)), shrink=True),
    "halves": slices((0, 3), (3, 6), axis=2),
    "sizes": slices((0, 2), (2, 3), (3, 6), op="SLICE"),
    "out of order, a gap": slices((4, 6), (0, 2)),
}
KEPT = {
    "overlapping": slices((0, 4), (3, 6)),
    "one": slices((0, 5)),
    "half of it": slices((0, 1), (4, 6)),
}


def operators(graph: Graph) -> list[str]:
    return [node.op for node in lower(graph, 2).nodes]


@pytest.mark.parametrize("graph", SPLIT.values(), ids=SPLIT)
def test_disjoint_slices_become_one_split(graph: Graph) -> None:
    found = operators(graph)
    assert found.count("SPLIT_V") == 1
    assert not {"SLICE", "STRIDED_SLICE"}.intersection(found)


@pytest.mark.parametrize("graph", KEPT.values(), ids=KEPT)
def test_other_graphs_stay_unchanged(graph: Graph) -> None:
    assert "SPLIT_V" not in operators(graph)


@pytest.mark.parametrize("graph", SPLIT.values(), ids=SPLIT)
def test_it_trains_the_same(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    data = ArrayData(
        [rng.normal(size=(4, 6, 6)).astype("f4")], [rng.normal(size=(4, 1)).astype("f4")]
    )
    check_same_training("merge_slices", graph, data, monkeypatch, moved=1e-4, atol=1e-7)
