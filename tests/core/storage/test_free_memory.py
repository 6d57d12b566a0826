"""Memory that is not in use goes back to the system."""

import platform

import numpy as np
import pytest

from odt.core.storage.free_memory import give_back
from odt.core.storage.usage import usage

COUNT, WORDS = 200, 2**13  # arrays of 64 kB, which lie side by side


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others decide for themselves")
def test_free_memory_below_memory_in_use_goes_back() -> None:
    arrays = [np.ones(WORDS) for _ in range(COUNT)]
    last = arrays.pop()
    arrays.clear()
    before = usage().rss
    give_back()
    assert before - usage().rss > COUNT * 64 / 2
    assert last.all()
