"""Runs many rounds in one process and measures what a federation must not gather."""

import gc
import os
import threading
import tracemalloc
from pathlib import Path

import numpy as np

import odt
from odt import federated

FIRST = 10  # rounds until everything is allocated


def growth(rounds: int, folder: Path) -> dict[str, float]:
    """Growth from round FIRST to the last: Python's memory per round in bytes, threads, files.

    The process's own memory is in "resident" in bytes, where the system has /proc.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 8)).astype(np.float32)
    y = np.eye(3, dtype=np.float32)[rng.integers(0, 3, 32)]
    model = odt.new_model("mlp", like=(x, y), hidden=(6,), seed=1)
    seen: dict[int, dict[str, float]] = {}

    def look(result: federated.Round) -> None:
        if result.round in (FIRST, rounds):
            gc.collect()
            seen[result.round] = measured()

    tracemalloc.start()
    try:
        with federated.new_trainer(model, metrics=["accuracy"], workers=2) as trainer:
            federated.simulate(
                trainer, x, y, clients=4, rounds=rounds, payload="int8", fraction=0.5,
                strategy="fedadam", validation_data=(x, y), save_to=folder / "fed.odt",
                log=folder / "log.csv", on_round=look,
            )  # fmt: skip
    finally:
        tracemalloc.stop()
    grown = {name: seen[rounds][name] - seen[FIRST][name] for name in seen[FIRST]}
    return grown | {"memory": grown["memory"] / (rounds - FIRST)}


def measured() -> dict[str, float]:
    """Memory of Python's objects, resident memory, threads and open files."""
    current, _ = tracemalloc.get_traced_memory()
    tasks, files = Path("/proc/self/task"), Path("/proc/self/fd")
    threads = len(os.listdir(tasks)) if tasks.exists() else threading.active_count()
    opened = len(os.listdir(files)) if files.exists() else 0
    statm = Path("/proc/self/statm")
    pages = int(statm.read_text().split()[1]) if statm.exists() else 0
    resident = pages * (os.sysconf("SC_PAGE_SIZE") if pages else 0)
    return {"memory": current, "threads": threads, "files": opened, "resident": resident}
