"""Measures time, and optionally memory, of the stages of a run.

The stages are the phases of onert_train: MODEL_LOAD, PREPARE, EXECUTE.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from odt.dataclass import dataclass
from odt.errors import OptionError

INTERVAL = 0.1  # seconds between two samples, as in onert_train
STATUS = "/proc/self/status"
SMAPS = "/proc/self/smaps"
ROLLUP = "/proc/self/smaps_rollup"  # the sums of smaps at a fraction of the cost


@dataclass(frozen=True, slots=True)
class Usage:
    """Memory of this process, in kB.

    Attributes:
        rss: resident set size.
        hwm: peak resident set size.
        pss: proportional set size: each shared page counts divided by the processes that share it.
    """

    rss: int
    hwm: int
    pss: int


def usage() -> Usage:
    """Reads the memory of this process.

    Raises:
        OptionError: if the system has no /proc/self.
    """
    try:
        with open(STATUS) as status, open(ROLLUP if os.path.exists(ROLLUP) else SMAPS) as maps:
            sizes, parts = status.read(), maps.read()
    except OSError as e:
        raise OptionError("mem_poll", "needs /proc/self", e, "Leave it out.") from e
    return Usage(_sum(sizes, "VmRSS:"), _sum(sizes, "VmHWM:"), _sum(parts, "Pss:"))


def _sum(text: str, key: str) -> int:
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(key))


class StageTimer:
    """Measures the wall time of stages, and polls their memory if requested.

    Attributes:
        times_ms: stage → wall time.
        usages: stage → largest rss, last hwm, largest pss; empty unless memory is polled.
    """

    def __init__(self, poll_memory: bool = False) -> None:
        if poll_memory:
            usage()  # raises an error now, not after the model is loaded
        self.poll_memory = poll_memory
        self.times_ms: dict[str, float] = {}
        self.usages: dict[str, Usage] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measures a `with` block as a stage."""
        done = threading.Event()
        poll = threading.Thread(target=self._poll, args=(name, done), daemon=True)
        if self.poll_memory:
            poll.start()
        start = time.perf_counter()
        try:
            yield
        finally:
            self.times_ms[name] = (time.perf_counter() - start) * 1000
            if self.poll_memory:
                done.set()
                poll.join()

    def _poll(self, name: str, done: threading.Event) -> None:
        """Polls until the stage ends, and once more at its end."""
        peak = usage()
        ended = False
        while not ended:
            ended = done.wait(INTERVAL)
            now = usage()
            peak = Usage(max(peak.rss, now.rss), now.hwm, max(peak.pss, now.pss))
        self.usages[name] = peak
