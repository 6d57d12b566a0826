"""Trains the same steps in onert and odt; each resumes from the other's checkpoint."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from odt.core.checkpoints.onert_checkpoint import decode, encode
from odt.core.formats.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.core.recipe.resolve import last_operators
from odt.core.training.trainer import Trainer
from odt.kernels.rows.opdef import Array
from support.losses import Losses
from support.networks import ArrayData, InOrder
from support.no_wheels import skip_without

FIRST, ALL = 3, 5  # steps before the change, and in all

# Its paths are 15 bytes long at most. It exports only after a run, so it first evaluates.
_ONERT = """
import json, sys
import numpy as np
from onert.experimental.train import losses, optimizer, session

what = json.loads(sys.argv[1])
x = [np.load(f"x{k}.npy") for k in range(what["inputs"])]
y = np.load("y.npy")
batch = what["batch"]

def make():
    rule = {"sgd": optimizer.SGD, "adam": optimizer.Adam}[what["optimizer"]](what["rate"])
    rule.nums_trainable_ops = what["last"]
    loss = {
        "mean_squared_error": losses.MeanSquaredError,
        "categorical_crossentropy": losses.CategoricalCrossentropy,
    }[what["loss"]]
    s = session("m.circle")
    s.compile(optimizer=rule, loss=loss(reduction="mean"), batch_size=batch)
    return s

def part(k):
    rows = slice(k * batch, (k + 1) * batch)
    return [np.ascontiguousarray(a[rows]) for a in x], [np.ascontiguousarray(y[rows])]

def train(s, first, last):
    return [float(s.train_step(*part(k))["loss"][0]) for k in range(first, last)]

s = make()
s.eval_step(*part(0))
s.session.train_export_checkpoint("begin")
result = {"through": train(s, 0, what["first"])}
s.session.train_export_checkpoint("first")
result["through"] += train(s, what["first"], what["all"])
s = make()
s.session.train_import_checkpoint("odt")
result["after_odt"] = train(s, what["first"], what["all"])
with open("losses.json", "w") as f:
    json.dump(result, f)
"""


@dataclass(frozen=True)
class Case:
    """Training run for both systems.

    Attributes:
        model: a Circle file.
        last: number of last operators that train; −1 for all.
        given_rate: learning rate; None for one that suits the optimizer.
    """

    model: Path
    optimizer: str
    last: int = -1
    batch: int = 4
    loss: str = "categorical_crossentropy"

    given_rate: float | None = None

    @property
    def rate(self) -> float:
        return self.given_rate or {"sgd": 0.01, "adam": 0.001}[self.optimizer]


@dataclass(frozen=True)
class Outcome:
    """Losses step by step, and checkpoints.

    Attributes:
        through: losses of onert without interruption.
        onert_then_odt, odt_then_onert: losses of the last steps.
        begin, first: onert's checkpoints before the first step and after some.
        our_begin: odt's own before the first step.
        again: both of onert's, read and written by odt.
    """

    through: list[float]
    onert_then_odt: list[float]
    odt_then_onert: list[float]
    begin: bytes
    first: bytes
    our_begin: bytes
    again: tuple[bytes, bytes]


def side_by_side(case: Case, folder: Path) -> Outcome:
    """Trains in both systems, in a working folder."""
    shutil.copyfile(case.model, folder / "m.circle")
    graph = read_model(str(case.model)).graph
    inputs, targets = _samples(case)
    for k, a in enumerate(inputs):
        np.save(folder / f"x{k}", a)
    np.save(folder / "y", targets)
    info = TrainingInfo(
        optimizer=case.optimizer,
        learning_rate=case.rate,
        loss=case.loss,
        batch_size=case.batch,
        trainable_ops=last_operators(graph, case.last),
    )
    data = ArrayData(inputs, [targets])

    def train(t: Trainer, first: int, last: int) -> list[float]:
        losses = Losses()
        list(t.train(data, InOrder(last * case.batch), epochs=1, watch=losses, skip=first))
        return losses.all

    def written(t: Trainer) -> bytes:
        return b"".join(encode(t.graph, t.parameters))

    with Trainer(graph, info) as t:
        our_begin = written(t)
        train(t, 0, FIRST)
        (folder / "odt").write_bytes(written(t))
    losses = _run_onert(case, len(inputs), folder)
    begin, first = ((folder / name).read_bytes() for name in ("begin", "first"))
    with Trainer(graph, info) as t:
        decode(begin, "begin", t.graph, t.parameters)
        again = written(t)
        decode(first, "first", t.graph, t.parameters)
        both = again, written(t)
        after_onert = train(t, FIRST, ALL)
    return Outcome(
        losses["through"], after_onert, losses["after_odt"], begin, first, our_begin, both
    )


def _samples(case: Case) -> tuple[list[Array], Array]:
    graph = read_model(str(case.model)).graph
    rng = np.random.default_rng(0)
    count = ALL * case.batch

    def normal(i: int) -> Array:
        shape = graph.tensors[i].spec.shape[1:]
        return rng.normal(size=(count, *shape)).astype(np.float32)

    inputs = [normal(i) for i in graph.inputs]
    (output,) = graph.outputs
    classes = graph.tensors[output].spec.shape[-1]
    if case.loss == "mean_squared_error":
        return inputs, normal(output)
    return inputs, np.eye(classes, dtype=np.float32)[rng.integers(0, classes, count)]


def _run_onert(case: Case, inputs: int, folder: Path) -> dict[str, list[float]]:
    skip_without("onert")
    what = {
        "inputs": inputs,
        "batch": case.batch,
        "optimizer": case.optimizer,
        "rate": case.rate,
        "last": case.last,
        "loss": case.loss,
        "first": FIRST,
        "all": ALL,
    }
    command = [sys.executable, "-c", _ONERT, json.dumps(what)]
    # Its default planner reuses memory that is in use when a part of the model trains.
    env = {**os.environ, "CPU_MEMORY_PLANNER": "Bump"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[float]] = json.loads((folder / "losses.json").read_text())
    return found
