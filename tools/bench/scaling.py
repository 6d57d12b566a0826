"""Measures how the time of a step scales with batch size, width and depth.

Also measures the overhead of a step, the speed-up by a second worker, and the peak arithmetic rate
of the machine.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.networks import Network, random_batch
from bench.networks.dense import mlp
from bench.networks.mobile import mobilenet
from bench.networks.plain import mnist
from bench.write_models import write
from odt.core.data.protocol import Weights
from odt.core.formats.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.core.training.trainer import Trainer
from odt.kernels.native import library
from odt.kernels.native.binding import bind
from odt.kernels.rows.opdef import Array

# A host can run both virtual cores on one physical core for seconds, which looks like one worker.
TURNS = 5


class OneBatch:
    """A data set of one batch."""

    def __init__(self, x: Array, y: Array) -> None:
        self.x, self.y = x, y
        self.weights: Weights | None = None

    def read(self, samples: Any, inputs: Any, targets: Any) -> None:
        rows = slice(samples[0], samples[-1] + 1)
        np.copyto(inputs[0], self.x[rows].reshape(inputs[0].shape))
        np.copyto(targets[0], self.y[rows].reshape(targets[0].shape))


def median_ms(step: Callable[[], object], seconds: float = 0.5) -> float:
    """Returns the median time of a step in ms, after one that is not timed."""
    step()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        before = time.perf_counter()
        step()
        times.append(time.perf_counter() - before)
    return statistics.median(times) * 1e3


def step_ms(net: Network, batch: int, folder: Path) -> float:
    """Writes a network; returns the time of its step in ms."""
    path = folder / "scaling.circle"
    write(net, path)
    return step_of(path, net, batch)


def step_of(
    path: Path, net: Network, batch: int, *, one_core: bool = False, **options: int
) -> float:
    """Returns the time of a step of a file in ms; `options` are those of the trainer."""
    x, y = random_batch(net, batch)
    info = TrainingInfo(learning_rate=1e-5, loss="categorical_crossentropy", batch_size=batch)
    with Trainer(read_model(path).graph, info, **options) as trainer:  # type: ignore[arg-type]
        if one_core:  # else a single worker shares its calls among all of them
            library.set_threads(1)
        return median_ms(lambda: trainer.step(OneBatch(x, y), batch))


def empty(*arguments: object, **arrays: object) -> None:
    """A kernel that does nothing."""


def overhead_us(folder: Path) -> tuple[int, float]:
    """Returns how often a step of a small network enters kernels, and its time in µs without them.

    Consecutive compiled calls are entered once, because they run as one loop in C.
    """
    net = mlp(8, 4)
    path = folder / "scaling.circle"
    write(net, path)
    x, y = random_batch(net, 4)
    info = TrainingInfo(loss="categorical_crossentropy", batch_size=4)
    with Trainer(read_model(path).graph, info) as trainer:
        program = trainer._training.programs.program(0, (4,))
        program.losses[0].fill(1)
        arrays = {"x": x, "w": x, "y": y}
        for runs in (program._forward, program._backward):
            runs[:] = [partial(empty, None, **arrays) for _ in runs]
        entries = len(program._forward) + len(program._backward)
        return entries, median_ms(lambda: trainer.step(OneBatch(x, y), 4)) * 1e3


def peak_gflops() -> float:
    """Returns the GFLOP/s of a 2048 × 2048 matrix product, in BLAS or in odt's kernel."""
    a = np.ones((2048, 2048), np.float32)
    out = np.empty_like(a)
    times = [median_ms(lambda: np.matmul(a, a, out=out))]
    if library.is_available():
        library.set_threads(2)
        times.append(median_ms(bind("dense", a, a, None, out, *a.shape, 2048, 0, 0.0, 0.0)))
        library.set_threads(1)
    return 2 * 2048**3 / min(times) / 1e6


def measure_scaling(folder: Path, *, quick: bool) -> dict[str, Any]:
    """Returns lists of (size, milliseconds), and single figures."""
    batches = (1, 8, 64, 512) if quick else tuple(2**k for k in range(10))
    calls, microseconds = overhead_us(folder)
    big = mobilenet()
    path = folder / "scaling.circle"
    write(big, path)
    one_worker = partial(step_of, path, big, 8, one_core=True, micro_batch=1, workers=1)
    two_workers = partial(step_of, path, big, 8, micro_batch=1, workers=2)
    turns = [(one_worker(), two_workers()) for _ in range(TURNS)]
    alone, both = (statistics.median(times) for times in zip(*turns, strict=True))
    return {
        "batch": [(b, step_ms(mnist(), b, folder)) for b in batches],
        "width": [(w, step_ms(mlp(w), 64, folder)) for w in (64, 128, 256, 512, 1024, 2048)],
        "depth": [(d, step_ms(mlp(128, d), 64, folder)) for d in (1, 2, 4, 8, 16)],
        "workers": {"one": alone, "two": both},
        "overhead": {"calls": calls, "microseconds": microseconds},
        "peak_gflops": peak_gflops(),
    }
