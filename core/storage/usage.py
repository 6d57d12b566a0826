"""What the phases of a run take: time, and memory if it is polled.

The phases are those of onert_train: MODEL_LOAD, PREPARE, EXECUTE.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from odt.errors import OptionError

INTERVAL = 0.1  # seconds between two samples, as in onert_train
STATUS = Path("/proc/self/status")
SMAPS = Path("/proc/self/smaps")
ROLLUP = Path("/proc/self/smaps_rollup")  # the sums of smaps at a fraction of the cost


@dataclass(frozen=True, slots=True)
class Usage:
    """Memory of this process, in kB.

    Attributes:
        rss: resident.
        hwm: the most that was ever resident.
        pss: resident, with shared pages divided by how many share them.
    """

    rss: int
    hwm: int
    pss: int


def usage() -> Usage:
    """Memory as it is now.

    Raises:
        OptionError: where there is no /proc to read it from.
    """
    try:
        status = STATUS.read_text()
        maps = (ROLLUP if ROLLUP.exists() else SMAPS).read_text()
    except OSError as e:
        raise OptionError(f"--mem-poll: needs /proc/self, but got: {e}. Leave it out.") from e
    return Usage(_sum(status, "VmRSS:"), _sum(status, "VmHWM:"), _sum(maps, "Pss:"))


def _sum(text: str, key: str) -> int:
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(key))


class StageTimer:
    """Times phases, and polls their memory if asked to.

    Attributes:
        times_ms: wall time by phase.
        usages: by phase: largest rss, last hwm, largest pss; empty unless polled.
    """

    def __init__(self, poll_memory: bool = False) -> None:
        if poll_memory:
            usage()  # refuses now rather than after the model is loaded
        self.poll_memory = poll_memory
        self.times_ms: dict[str, float] = {}
        self.usages: dict[str, Usage] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Everything inside the with block is this phase."""
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
        """Samples until the phase is done, and once more then."""
        most = usage()
        ended = False
        while not ended:
            ended = done.wait(INTERVAL)
            now = usage()
            most = Usage(max(most.rss, now.rss), now.hwm, max(most.pss, now.pss))
        self.usages[name] = most
