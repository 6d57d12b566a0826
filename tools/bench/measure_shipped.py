"""odt and LiteRT on a shipped model file, on one core: measure_shipped.py NAME FILE.

Prints the figures as one line of JSON: time of a training step with Adam and of LiteRT's forward
pass of as many samples, and the growth of the process beside the plan's prediction. The process has
imported all kernels before, because the prediction does not count modules.
"""

import importlib
import json
import math
import os
import pkgutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.random
from fetch_shipped_models import models

import odt.kernels
from bench.measuring import status
from odt.core.planning.budget.fit_budget import fit_budget
from odt.core.planning.computation import Plans
from odt.core.recipe.computations import training_and_validation
from odt.core.recipe.interface import read_interface
from odt.core.recipe.lowered_model import lower_model
from odt.core.recipe.prepare import Request, prepare
from odt.core.training.random_data import random_data
from odt.core.training.trainer import Trainer

SAMPLES = 8  # of a step, if the file is for single samples
SECONDS, LEAST = 0.5, 3  # time, and number of calls at least, of a step and a forward pass in turn

Arrays = Sequence[np.ndarray]


@dataclass
class Batch:
    """A batch as data, (samples, values of a sample); without arrays, usual values or 1."""

    inputs: Arrays = ()
    targets: Arrays = ()
    weights: None = None
    usual: Sequence[int | None] = ()

    def read(self, indices: range, inputs: Arrays, targets: Arrays) -> None:
        if not self.inputs:
            for a in (*inputs, *targets):
                a.fill(1)
            for a, value in zip(inputs, self.usual, strict=True):
                a.fill(1 if value is None else value)
            return
        for arrays, values in ((inputs, self.inputs), (targets, self.targets)):
            for a, v in zip(arrays, values, strict=True):
                np.copyto(a, v[indices.start : indices.stop])


def import_all() -> None:
    """Imports all modules of odt.kernels."""
    for module in pkgutil.walk_packages(odt.kernels.__path__, "odt.kernels."):
        if not module.name.endswith("._kernels"):
            importlib.import_module(module.name)


def medians(
    step: Callable[[], object], forward: Callable[[], object], seconds: float
) -> list[float]:
    """Returns the medians of processor seconds of both functions, called in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + seconds
    while len(times[0]) < LEAST or time.perf_counter() < end:
        for function, values in zip((step, forward), times, strict=True):
            before = time.process_time()
            function()
            values.append(time.process_time() - before)
    return [statistics.median(values) for values in times]


def measure(entry: dict[str, Any], path: str, seconds: float = SECONDS) -> dict[str, Any]:
    """Measures a model with an entry in tools/shipped_models.toml."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # odt shares a call among all cores
    import_all()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    base = status("VmRSS")
    model = lower_model(read_interface(path, entry.get("signature"), entry.get("input_shapes")))
    file_batch = model.graphs.file_batch
    samples = -(-SAMPLES // file_batch) * file_batch
    options = {"loss": "mean_squared_error", "optimizer": "adam"}
    options |= {"learning_rate": 1e-6, "batch_size": samples}
    recipe = prepare(model, Request(options))
    with Trainer(recipe.graphs, recipe.info) as trainer:
        model.file.release_pages()  # as odt.Trainer does: the weights that train are copied
        batch = Batch(usual=trainer.runtime.usual)
        for _ in range(2):
            trainer.step(batch, samples)
        grown = status("VmHWM") - base
        plans, info = Plans(recipe.graphs), recipe.info
        predicted = fit_budget(plans, training_and_validation(plans.graphs, info), info, None)
        data = random_data(trainer.runtime, seed=0)
        pictures = all(len(s.shape) == 3 and s.shape[-1] in (1, 3) for s in data.inputs)
        floats = "unit" if pictures else data.floats
        data = replace(data, floats=entry.get("inputs", floats))
        batch.inputs, batch.targets = (
            [np.empty((samples, s.size), s.dtype) for s in specs]
            for specs in (data.inputs, data.targets)
        )
        data.read(range(samples), batch.inputs, batch.targets)
        forward: Callable[[], object] = dict
        times = math.nan  # LiteRT lacks an operator of the model
        if entry.keys().isdisjoint(("parts", "unrolled")):
            # LiteRT is imported only now, since the growth above is of odt alone.
            from bench.measure_forward import forward_pass

            forward, times = forward_pass(path, entry, batch.inputs, samples // file_batch)
        step, one = medians(lambda: trainer.step(batch, samples), forward, seconds)
    peak = predicted.peak / 2**20
    return {
        "samples": samples,
        "micro_batch": trainer.runtime.schedule.micro_batch,
        "step_ms": step * 1e3,
        "forward_ms": times * one * 1e3,
        "resized": times == 1,
        "step_to_forward": step / (times * one),
        "memory_mb": grown,
        "plan_mb": peak,
        "memory_to_plan": grown / peak,
    }


if __name__ == "__main__":
    (model,) = (m for m in models() if m["name"] == sys.argv[1])
    sys.stdout.write(json.dumps(measure(model, sys.argv[2])) + "\n")
