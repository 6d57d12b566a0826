"""Runs the recorded training trajectories."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from odt.core.formats.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.core.runtime.parameters import by_name
from odt.core.training.trainer import Trainer
from odt.kernels.rows.opdef import Array
from support.losses import Losses
from support.networks import ArrayData, InOrder

Case = dict[str, Any]


@dataclass
class Run:
    """Results of odt for the recorded steps of a case."""

    losses: list[float]
    before: dict[str, Array]
    after_first: dict[str, Array]
    after_last: dict[str, Array]


def cases(folder: Path) -> list[tuple[Path, Case]]:
    """Returns all cases of all models in a folder of golden data."""
    return [
        (path.parent, case)
        for path in sorted(folder.glob("*/cases.json"))
        for case in json.loads(path.read_text())["cases"]
    ]


def title(item: tuple[Path, Case]) -> str:
    folder, case = item
    words = (case["optimizer"], case["loss"], case["reduction"], case["num_of_trainable_ops"])
    return " ".join(str(w) for w in (folder.name, *words))


def run(folder: Path, case: Case, **options: int) -> Run:
    """Trains a model as recorded in a case.

    Args:
        options: options of the trainer: micro_batch, workers.
    """
    graph = read_model(str(folder / "model.circle")).graph
    samples = case["steps"] * case["batch_size"]
    x = np.fromfile(folder / "input.bin", "<f4").reshape(samples, -1)
    t = np.fromfile(folder / "expected.bin", "<f4").reshape(samples, -1)
    last = case["num_of_trainable_ops"]
    count = len(graph.nodes)
    info = TrainingInfo(
        optimizer=case["optimizer"],
        learning_rate=case["learning_rate"],
        loss=case["loss"],
        reduction=case["reduction"],
        batch_size=case["batch_size"],
        trainable_ops=None if last == -1 else tuple(range(count - last, count)),
    )
    with Trainer(graph, info, **options) as trainer:  # type: ignore[arg-type]  # ints all

        def weights() -> dict[str, Array]:
            return by_name(graph, {i: a.copy() for i, a in trainer.parameters.tensors.items()})

        class Steps(Losses):
            def step(self, epoch: int, step: int, loss: float) -> None:
                super().step(epoch, step, loss)
                if step == 1:
                    snapshots.append(weights())

        snapshots, losses = [weights()], Steps()
        data = ArrayData([x], [t])
        list(trainer.train(data, InOrder(samples), epochs=1, watch=losses))
        return Run(losses.all, snapshots[0], snapshots[1], weights())


def update_error(run: Run, recorded: dict[str, Array], after: dict[str, Array]) -> float:
    """Returns the norm of the weights' difference relative to the norm of the update."""
    difference = update = 0.0
    for name, theirs in recorded.items():
        if name in after:
            difference += float(np.sum((after[name].astype(np.float64) - theirs) ** 2))
            update += float(np.sum((theirs.astype(np.float64) - run.before[name]) ** 2))
    return float(np.sqrt(difference / update))
