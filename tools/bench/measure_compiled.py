"""Times training by odt or by its C program: measure_compiled.py HOW NETWORK FOLDER.

Each line of standard input is a number of steps; the answer is the processor time of a step in ms.
HOW is python, or the name of the library in FOLDER that was built from the C program. FOLDER also
holds NETWORK.tflite, options.json, batch.bin and the folder NETWORK-web, compiled for WebAssembly.
"""

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

how, name, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before odt counts the cores

import odt  # noqa: E402

Arrays = Sequence[np.ndarray]


def batch_of(shapes: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Returns the arrays of batch.bin."""
    values = np.fromfile(folder / "batch.bin", np.float32)
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    parts = np.split(values, ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


class Batch:
    """A batch as a data set."""

    weights = None

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays

    def read(self, indices: range, inputs: Arrays, targets: Arrays) -> None:
        for a, values in zip((*inputs, *targets), self.arrays, strict=True):
            np.copyto(a, values[indices[0] : indices[-1] + 1].reshape(a.shape))


def python_step() -> Callable[[], object]:
    """Returns the step of the trainer whose calls the C program has."""
    options = json.loads((folder / "options.json").read_text())
    size = options["batch_size"]
    trainer = odt.Trainer(folder / f"{name}.tflite", **options, workers=1, micro_batch=size)
    session = trainer.session.build()
    manifest = json.loads((folder / f"{name}-web/manifest.json").read_text())
    data = Batch(batch_of([a["shape"] for k in ("inputs", "targets") for a in manifest[k]]))
    return lambda: session.step(data, size)


def c_step() -> Callable[[], object]:
    """Returns the step of the library."""
    manifest = json.loads((folder / f"{name}-web/manifest.json").read_text())
    library = ctypes.CDLL(str(folder / f"{how}.so"))
    arrays = batch_of([a["shape"] for k in ("inputs", "targets") for a in manifest[k]])
    pointers = [ctypes.c_void_p(np.ascontiguousarray(a).ctypes.data) for a in arrays]
    loss = ctypes.c_float()
    library[f"{name}_init"]()
    train, size = library[f"{name}_train"], manifest["batch_size"]
    return lambda: (arrays, train(*pointers, size, ctypes.byref(loss)))


step = python_step() if how == "python" else c_step()
for line in sys.stdin:
    before = time.process_time()
    for _ in range(int(line)):
        step()
    print((time.process_time() - before) * 1000 / int(line), flush=True)
