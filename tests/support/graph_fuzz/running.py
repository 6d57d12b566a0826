"""Predictions, losses, gradients and steps of optimizers from odt."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from odt.core.data.protocol import Data
from odt.core.formats.reader import read_model
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.dequantize import dequantize_weights
from odt.core.model.training_info import TrainingInfo
from odt.core.training.frozen_cache import CachePolicy
from odt.core.training.inference import Predictor
from odt.core.training.self_test import in_float64
from odt.core.training.trainer import Trainer
from odt.errors import OptionError
from odt.kernels.rows.opdef import Array
from support.graph_fuzz.reference import Problem
from support.losses import Losses
from support.networks import ArrayData, InOrder

# A power of two, and so large that w − w' holds the gradient's digits.
RATE = 1024.0


@dataclass(frozen=True)
class Trained:
    """What training gave: the loss of each step, and the weights by the graph's indices."""

    losses: list[float]
    weights: dict[int, Array]


class Model:
    """A problem's graph as odt reads it from a file.

    Args:
        path: of the file.
        problem: what it belongs to.
        wide: compute in float64.
    """

    def __init__(self, path: Path, problem: Problem, wide: bool = False) -> None:
        graphs = LoweredGraphs(dequantize_weights(read_model(str(path))).graph)
        used = in_float64(graphs) if wide else graphs
        self.graph = used.graph
        self.wide = used is not graphs
        self.problem = problem
        self._own = {
            k: int(t.name.removeprefix("weight_"))
            for k, t in enumerate(self.graph.tensors)
            if t.name.startswith("weight_")
        }
        self._file = {own: k for k, own in self._own.items()}

    def predict(self, batch: int, **options: Any) -> list[Array]:
        """The outputs of all samples."""
        data, samples = ArrayData(self.problem.inputs, ()), len(self.problem.inputs[0])
        with Predictor(self.graph, batch, **options) as predictor:
            parts = [[a.copy() for a in p] for p in predictor.run(data, range(samples))]
        return [np.concatenate(rows) for rows in zip(*parts, strict=True)]

    def info(self, batch: int, **more: Any) -> TrainingInfo:
        """How the problem is trained; tensors in `more` are the graph's.

        Without a choice all weights are named, since a random graph has them at places where the
        constants of formulas are.
        """
        problem = self.problem
        names = [str(k) for k in range(len(problem.losses))]
        if more.keys().isdisjoint(("trainable_tensors", "trainable_ops")):
            more["trainable_tensors"] = tuple(self._file.values())
        elif "trainable_tensors" in more:
            more["trainable_tensors"] = tuple(self._file[i] for i in more["trainable_tensors"])
        if "sparse" in more:
            more["sparse"] = tuple((self._file[i], channels) for i, channels in more["sparse"])
        return TrainingInfo(
            output_losses=tuple(zip(names, problem.losses, strict=True)),
            loss_weights=tuple(zip(names, problem.loss_weights, strict=True)),
            reduction=problem.reduction,
            batch_size=batch,
            **more,
        )

    def train(
        self, info: TrainingInfo, epochs: int = 1, cached: bool = False, **options: Any
    ) -> Trained:
        """Trains on all samples in order; `cached` computes what does not train once."""
        targets = self.problem.targets
        samples = len(self.problem.inputs[0])
        data: Data = ArrayData(self.problem.inputs, targets)
        losses = Losses()
        with Trainer(
            self.graph, info, cache=CachePolicy(samples) if cached else None, **options
        ) as trainer:
            if cached:
                data = trainer.frozen(data, ArrayData((), targets), (range(samples),))
            list(trainer.train(data, InOrder(samples), epochs=epochs, watch=losses))
            found = {self._own[i]: a.copy() for i, a in trainer.parameters.tensors.items()}
        return Trained(losses.all, found)

    def gradients(self, info: TrainingInfo, cached: bool = False, **options: Any) -> Trained:
        """The loss and, in place of the weights, the gradients of one batch: a step of SGD."""
        info = replace(info, optimizer="sgd", hyper_parameters={}, learning_rate=RATE)
        trained = self.train(info, cached=cached, **options)
        start = self.problem.graph.values
        found = {i: (start[i] - a.astype(np.float64)) / RATE for i, a in trained.weights.items()}
        return Trained(trained.losses, found)

    def budget(self, info: TrainingInfo, share: float, cached: bool, **options: Any) -> int:
        """A memory budget between the smallest that is taken, about, and what is needed without."""
        options["cache"] = CachePolicy(len(self.problem.inputs[0])) if cached else None
        with Trainer(self.graph, info, budget=1 << 40, **options) as trainer:
            assert trainer.predicted is not None
            most = trainer.predicted
        low, least = 0, most
        for _ in range(4):
            middle = (low + least) // 2
            try:
                Trainer(self.graph, info, budget=middle, **options).close()
                least = middle
            except OptionError:
                low = middle
        return least + int(share * (most - least))


def regression(graph: Any, outputs: Sequence[int], samples: int, seed: int = 0) -> Problem:
    """Random samples and targets, mean squared error on every output."""
    rng = np.random.default_rng(seed)

    def draw(i: int) -> Array:
        shape = samples, *graph.values[i].shape[1:]
        return rng.normal(size=shape).astype(np.float32)

    graph.outputs = list(outputs)
    inputs, targets = tuple(map(draw, graph.inputs)), tuple(map(draw, outputs))
    losses = ("mean_squared_error",) * len(outputs)
    return Problem(graph, inputs, targets, losses, (1.0,) * len(outputs))
