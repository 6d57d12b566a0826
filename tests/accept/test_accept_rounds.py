"""1,000 rounds of build, fit and close in one process grow neither memory, threads nor handles."""

import os
from pathlib import Path

import pytest
from support.fuzzed_states import prepare
from support.grown_by_rounds import grown

pytestmark = [
    pytest.mark.accept,
    pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs Linux's /proc"),
]


def test_a_thousand_rounds_leave_nothing_behind(tmp_path: Path) -> None:
    prepare(tmp_path)
    found = grown(tmp_path, 64, 1000)
    print(found)
    assert found["threads"] == found["handles"] == 0
    assert found["objects"] < 100
    assert found["bytes"] < 4 << 20, "less than 4 kB a round"
