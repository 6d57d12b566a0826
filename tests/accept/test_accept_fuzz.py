"""Thousands of random graphs, drawn as in tests/core/test_random_graphs.py.

ODT_ACCEPT_CASES of each ordinary kind and half as many whose batch axis is moved or folded;
3,000 and 1,500 by default.
"""

import os

import pytest
from support.graph_fuzz.searching import search

pytestmark = pytest.mark.accept

CASES = int(os.environ.get("ODT_ACCEPT_CASES", "3000"))
CHUNK = 50
KINDS = {"ordinary": CASES * 3 // 4, "batched": CASES // 4, "moved": CASES // 2}
FIRST = 1000  # seeds below are those of `make test`
CHUNKS = [(kind, at) for kind, count in KINDS.items() for at in range(0, count, CHUNK)]


@pytest.mark.parametrize(("kind", "at"), CHUNKS)
def test_random_graphs_agree_with_single_samples(kind: str, at: int) -> None:
    wrong = search(kind, range(FIRST + at, FIRST + min(at + CHUNK, KINDS[kind])))
    assert not wrong, wrong
