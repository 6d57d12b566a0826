"""Rounds of build, fit and close in one process, with its memory, threads and file handles.

Arguments: a folder with m.circle (6 → 3) and device, a number of rounds to warm up, and a number of
rounds to measure. Prints the growth of bytes, threads, handles and Python objects as JSON.
"""

import ctypes
import gc
import json
import os
import sys
from pathlib import Path

import numpy as np

import odt

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 6)).astype(np.float32)
Y = np.eye(3, dtype=np.float32)[X[:, :3].argmax(1)]


def one_round(folder: Path, number: int) -> None:
    """Trains as a client of a federation does, from artifacts in every fourth round."""
    if number % 4 == 0:
        trainer = odt.Trainer.from_artifacts(folder / "device", check=number % 8 == 0)
    else:
        model = odt.load_model(folder / "m.circle")
        workers, optimizer = 1 + number % 2, odt.Adam(0.01)
        trainer = odt.Trainer(model, optimizer=optimizer, batch_size=8, workers=workers)
    with trainer:
        trainer.state.copy_buffer_to_parameters(trainer.state.get_contiguous_parameters())
        trainer.fit(X, Y, epochs=1, validation_data=(X, Y))
        trainer.state.save(folder / "state.odt")
        trainer.export(folder / "new.circle")
    odt.CheckpointState.load(folder / "state.odt").get_contiguous_optimizer_state()


def measured() -> dict[str, int]:
    """The process' resident bytes, threads, file handles and Python objects."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc keeps freed memory as resident
    if trim is not None:
        trim(0)
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return {
        "bytes": int(resident.split()[1]) * 1024,
        "threads": len(os.listdir("/proc/self/task")),
        "handles": len(os.listdir("/proc/self/fd")),
        "objects": len(gc.get_objects()),
    }


def main(folder: Path, warm: int, count: int) -> None:
    for number in range(warm):
        one_round(folder, number)
    before = measured()
    for number in range(count):
        one_round(folder, number)
    after = measured()
    print(json.dumps({name: after[name] - before[name] for name in before}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
