"""Random graphs: what odt predicts and trains is what single samples give in float64.

tests/support/graph_fuzz draws graphs, runs each in several ways (batches, micro-batches, workers,
budgets, caches, kernel sets, what trains, optimizers) and compares. A case that fails is made
smaller and printed with its seed; it runs alone with

    ODT_GRAPH=moved:17 pytest tests/core/test_random_graphs.py -k again

Thousands of cases run in tests/accept/test_accept_fuzz.py.
"""

import json
import os
from importlib import import_module

import pytest
from support.graph_fuzz.cases import KINDS
from support.graph_fuzz.searching import search
from support.paths import ROOT

CASES = {"ordinary": 30, "moved": 20, "batched": 15}


@pytest.mark.parametrize("kind", KINDS)
def test_random_graphs_agree_with_single_samples(kind: str) -> None:
    wrong = search(kind, range(CASES[kind]))
    assert not wrong, wrong


def test_the_graph_that_is_asked_for_again() -> None:
    kind, seed = os.environ.get("ODT_GRAPH", "ordinary:0").split(":")
    wrong = search(kind, [int(seed)])
    assert not wrong, wrong


def test_former_names_lead_to_names_that_exist() -> None:
    """A tester that is older than this repository's folders finds by these names what has moved."""
    path = ROOT / "tools" / "graph_fuzz_names.json"
    names = json.loads(path.read_text())
    assert names
    for name in names.values():
        module, attribute = name.split(":")
        assert hasattr(import_module(module), attribute), name
