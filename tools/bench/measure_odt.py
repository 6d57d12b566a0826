"""odt: measure_odt.py NETWORK BATCH full|last FILES"""

import sys
from pathlib import Path

import networks
import numpy as np
from measuring import Measurement

name, batch, mode, files = sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
net = networks.NETWORKS[name]()
x, y, _ = networks.batch_of(net, batch)
del net
measurement = Measurement()

from odt.core.reader import read_model  # noqa: E402
from odt.core.trainer import Trainer  # noqa: E402
from odt.core.training_info import TrainingInfo  # noqa: E402


class Memory:
    """The batch, as a data set."""

    def read(self, indices: range, inputs: list[np.ndarray], targets: list[np.ndarray]) -> None:
        np.copyto(inputs[0], x[indices[0] : indices[-1] + 1].reshape(inputs[0].shape))
        np.copyto(targets[0], y[indices[0] : indices[-1] + 1])


graph = read_model(files / f"{name}.circle").graph
last = (max(n.origin for n in graph.nodes),)
info = TrainingInfo(
    optimizer="adam",
    learning_rate=1e-5,
    loss="categorical_crossentropy",
    batch_size=batch,
    trainable_ops=last if mode == "last" else None,
)
trainer = Trainer(graph, info)
measurement.finish(lambda: trainer.step(Memory(), batch))
