"""odt: measure_odt.py NETWORK BATCH full|last FILES [budget|cache|bf16]."""

import sys
from pathlib import Path

import numpy as np

from bench import networks
from bench.measuring import Measurement

name, batch, mode, files = sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
how = sys.argv[5] if len(sys.argv) > 5 else ""
task = networks.task_of(name)
x, y = networks.random_batch(task, batch)
measurement = Measurement()

from odt.core.formats.reader import read_model  # noqa: E402
from odt.core.model.training_info import TrainingInfo  # noqa: E402
from odt.core.training.trainer import Trainer  # noqa: E402

LOSSES = {"cce": "categorical_crossentropy", "scce": "sparse_categorical_crossentropy",
          "mse": "mean_squared_error"}  # fmt: skip


class Memory:
    """The batch, as a data set."""

    weights = None

    def read(self, indices: range, inputs: list[np.ndarray], targets: list[np.ndarray]) -> None:
        for arrays, values in ((inputs, x), (targets, y)):
            for a in arrays:
                np.copyto(a, values[indices[0] : indices[-1] + 1].reshape(a.shape))


path = files / f"{name}.{'tflite' if name in networks.SHIPPED else 'circle'}"
model = read_model(path)
graph = model.graph
last = (max(n.origin for n in graph.nodes) - 1,)  # before the SOFTMAX
info = TrainingInfo(
    optimizer="adam",
    learning_rate=1e-5,
    loss=LOSSES[task.loss],
    batch_size=batch,
    trainable_ops=last if mode == "last" else None,
    precision="bf16" if how == "bf16" else "float32",
)
# Without `process=`, a budget does not count memory that the process has before training; the row
# is named for 100 MB with odt's own modules.
budget = 90_000_000 if how == "budget" else None
policy = None
if how == "cache":
    from odt.core.training.frozen_cache import CachePolicy

    policy = CachePolicy(batch)
if how == "bf16":
    from odt.kernels.native.library import lacks_bf16

    if why := lacks_bf16():
        sys.exit(why)
trainer = Trainer(graph, info, budget=budget, cache=policy)
model.release_pages()  # as odt.Trainer does: the weights that train are copied
trained = sum(a.size for a in trainer.parameters.tensors.values())
if isinstance(task, networks.Network) and mode == "full":
    assert trained == task.parameters, f"{trained} of {task.parameters} parameters train"
data = Memory()
if policy:  # the first step fills the cache; the steps that are timed are of later epochs
    data = trainer.frozen(data, data, [range(batch)])
measurement.finish(lambda: trainer.step(data, batch))
