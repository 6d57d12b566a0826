"""Shared by the measuring scripts: measures time and memory of a step, as one line of JSON.

Imports only the standard library, because it runs in the environment of each system.
"""

import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

SECONDS, MAX_STEPS, MIN_STEPS = 2.0, 200, 5  # of the steps that are timed
WARM_UP = 2  # steps before them, including the first


def status(key: str, process: int | str = "self") -> float:
    """Returns a field of a process's status in MB."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(key)


def machine_seconds() -> float:
    """Returns the busy time of all cores together."""
    ticks = [int(v) for v in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    busy = (0, 1, 2, 5, 6, 7)  # user, nice, system, irq, softirq and steal; not idle and iowait
    return sum(ticks[k] for k in busy) / 100


def own_seconds() -> float:
    """Returns the processor time of this process."""
    times = os.times()
    return times.user + times.system


@contextlib.contextmanager
def whole(folder: Path) -> Iterator[Path]:
    """Yields a temporary folder that is renamed to `folder` after all files are written."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as temporary:
        target = Path(temporary) / folder.name
        target.mkdir()
        yield target
        target.rename(folder)


def write_once(folder: Path, write: Callable[[Path], None]) -> None:
    """Writes a system's files in a separate process, whose memory is not measured."""
    if folder.exists():
        return
    child = os.fork()
    if not child:
        with whole(folder) as target:
            write(target)
        os._exit(0)
    _, code = os.waitpid(child, 0)
    if code:
        sys.exit(1)  # the child has printed the error


class Measurement:
    """A measurement; create it after loading NumPy and the data, before importing the system."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
        self.base = status("VmRSS")
        self.began = time.perf_counter()

    def finish(self, step: Callable[[], float]) -> None:
        """Runs steps and prints the measurement; `step` returns the loss."""
        first_loss = float(step())
        to_first = time.perf_counter() - self.began
        for _ in range(WARM_UP - 1):
            step()
        times: list[float] = []
        busy, process, start = machine_seconds(), own_seconds(), time.perf_counter()
        while len(times) < MAX_STEPS and (
            len(times) < MIN_STEPS or time.perf_counter() - start < SECONDS
        ):
            before = time.perf_counter()
            step()
            times.append(time.perf_counter() - before)
        wall = time.perf_counter() - start
        others = (machine_seconds() - busy - (own_seconds() - process)) / wall
        result = {
            "step_ms": statistics.median(times) * 1e3,
            "least_ms": min(times) * 1e3,
            "steps": len(times),
            "others": others,
            "first_loss_ms": to_first * 1e3,
            "memory_mb": status("VmHWM") - self.base,
            "peak_mb": status("VmHWM"),
            "first_loss": first_loss,
        }
        sys.stdout.write("\n" + json.dumps(result) + "\n")
