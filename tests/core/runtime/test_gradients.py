"""Gradients of micro-batches add up in one order, whichever worker is faster."""

import threading
import time

import numpy as np
import pytest
from support.limits import FOREVER

from odt.core.runtime.accumulate import Totals

LARGE, SMALL = np.float32(1e8), np.float32(1)  # what they add up to depends on their order


def sums(delays: tuple[float, float]) -> float:
    totals = Totals({7: np.empty(1, np.float32)}, 2)
    totals.start(2)
    gradients = ((LARGE, -LARGE), (SMALL, SMALL))

    def work(worker: int) -> None:
        for k, g in enumerate(gradients[worker]):
            time.sleep(delays[worker])
            totals.add(7, np.array([g]), k, worker)

    threads = [threading.Thread(target=work, args=(w,)) for w in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(FOREVER)
        assert not t.is_alive(), "a worker waits for ever"
    return float(totals.arrays[7][0])


def test_the_order_is_that_of_the_workers() -> None:
    """((large + small) − large) + small, rounded each time."""
    wanted = float(((LARGE + SMALL) - LARGE) + SMALL)
    assert sums((0, 0.02)) == sums((0.02, 0)) == wanted


def test_workers_do_not_wait_for_a_failed_worker() -> None:
    totals = Totals({7: np.empty(1, np.float32)}, 2)
    totals.start(2)

    def fail() -> None:
        raise ValueError("failed")

    waiting = threading.Thread(target=totals.add, args=(7, np.ones(1, np.float32), 0, 1))
    waiting.start()
    with pytest.raises(ValueError, match="failed"):
        totals.guarded(fail)()
    waiting.join(FOREVER)
    assert not waiting.is_alive()
