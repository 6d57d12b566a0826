"""Records how PyTorch trains the benchmarked networks in float64, for tests/project.

In the environment of PyTorch:
PYTHONPATH=tools python tools/bench/measure_torch_losses.py tests/project/bench_losses.json
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench import networks
from bench.measure_torch_model import Model

BATCH, STEPS = 2, 2
RATE, BETA1, BETA2, EPSILON = 1e-4, 0.9, 0.999, 1e-7


class Adam:
    """Adam in Keras' form: epsilon is added before the bias correction."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.slots = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]
        self.steps = 0

    @torch.no_grad()
    def step(self) -> None:
        self.steps += 1
        rate = RATE * (1 - BETA2**self.steps) ** 0.5 / (1 - BETA1**self.steps)
        for p, m, v in self.slots:
            m.add_(p.grad - m, alpha=1 - BETA1)
            v.add_(p.grad**2 - v, alpha=1 - BETA2)
            p.sub_(rate * m / (v.sqrt() + EPSILON))
            p.grad = None


def tensor(a: np.ndarray) -> Tensor:
    """Returns values in float64, images channels-first; tokens stay integers."""
    first = torch.from_numpy(np.ascontiguousarray(np.moveaxis(a, -1, 1) if a.ndim > 3 else a))
    return first.double() if a.dtype.kind == "f" else first


def losses(net: networks.Network) -> list[float]:
    """Returns the losses before each step, padded as in TFLite."""
    model = Model(net, uneven=True).double()
    model.set_weights(net)
    x, y = map(tensor, networks.random_batch(net, BATCH))
    adam = Adam(model.trained())
    values = []
    for _ in range(STEPS):
        outputs = model(x)
        if net.loss == "mse":
            loss = F.mse_loss(outputs, y)
        else:
            labels = y.argmax(1) if net.loss == "cce" else y.flatten().long()
            loss = F.cross_entropy(outputs.flatten(0, -2), labels)
        loss.backward()
        adam.step()
        values.append(loss.item())
    return values


if __name__ == "__main__":
    rows = {name: losses(make()) for name, make in networks.NETWORKS.items()}
    versions = {"torch": torch.__version__, "batch": BATCH, "learning_rate": RATE}
    Path(sys.argv[1]).write_text(json.dumps({**versions, "losses": rows}, indent=1) + "\n")
