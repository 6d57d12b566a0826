"""Records how torch and pytorch-optimizer update weights, for tests/golden_updates.

pip install -e '.[references]', then: python tools/record_updates.py tests/golden_updates

updates.json has cases by name. For each, tests/golden_torch/mlp.circle is trained for five steps in
float64; the case has the options of odt.Trainer, the loss of each step, and the sum, the sum of
squares and the first values of each weight afterwards. schedules.json has schedules as on the
command line: "schedules" has the learning rate of each step, and "plateaus" the learning rate after
each epoch, which depends on the validation losses in "losses".
"""

import json
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytorch_optimizer
import torch
from torch import optim
from torch.optim import lr_scheduler as rates
from torch.optim.lr_scheduler import LRScheduler

from odt.core.formats.reader import read_model

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests/golden_torch"
BATCH, STEPS = 4, 5
FIRST = 6  # values of a weight that are recorded
RATE = 0.1  # of every schedule
SCHEDULE_STEPS = 20  # of each schedule that are recorded
EPSILON = 2.0**-23  # of float32, as in odt; torch would take that of the dtype, float64
Weights = dict[str, torch.Tensor]


def weights() -> Weights:
    """The weights of mlp.circle by name, to be trained."""
    tensors = read_model(str(FOLDER / "mlp.circle")).graph.tensors
    return {
        t.name: torch.tensor(t.data, dtype=torch.float64, requires_grad=True)
        for t in tensors
        if t.data is not None and t.spec.dtype.kind == "f"
    }


def loss_of(w: Weights, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """Categorical cross-entropy of what mlp.circle computes: three dense layers, tanh and ELU."""
    by_shape = {tuple(a.shape): a for a in w.values()}
    w0, b0 = by_shape[32, 12], by_shape[32,]
    w1, b1 = by_shape[16, 32], by_shape[16,]
    w2, b2 = by_shape[3, 16], by_shape[3,]
    linear = torch.nn.functional.linear
    hidden = torch.nn.functional.elu(linear(torch.tanh(linear(x, w0, b0)), w1, b1))
    return torch.nn.functional.cross_entropy(linear(hidden, w2, b2), t)


def train(
    make: Callable[[list[torch.Tensor]], optim.Optimizer],
    clip: Callable[[list[torch.Tensor]], object] = list,  # changes nothing
) -> dict[str, Any]:
    """Losses and weights of five steps, with gradients clipped before each."""
    arrays = np.load(FOLDER / "mlp.npz")
    x, t = (torch.tensor(arrays[n], dtype=torch.float64) for n in ("input0", "targets"))
    w = weights()
    optimizer = make(list(w.values()))
    losses = []
    for first in range(0, BATCH * STEPS, BATCH):
        optimizer.zero_grad()
        loss = loss_of(w, x[first : first + BATCH], t[first : first + BATCH])
        loss.backward()
        clip(list(w.values()))
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "weights": {name: digest(a) for name, a in w.items()}}


def digest(a: torch.Tensor) -> list[float]:
    """The sum of an array, the sum of its squares, and its first values."""
    flat = a.detach().reshape(-1)
    return [float(flat.sum()), float((flat * flat).sum()), *flat[:FIRST].tolist()]


# Name → options of odt.Trainer, and the constructor of the same optimizer of the reference. odt's
# Adam is that of Keras, which adds epsilon in another place than torch's: epsilon is 0 here.
UPDATES: dict[str, tuple[dict[str, Any], Callable[..., optim.Optimizer]]] = {
    "sgd": (
        {"optimizer": "sgd", "learning_rate": 0.05},
        lambda p: optim.SGD(p, 0.05),
    ),
    "sgd, Nesterov momentum and decay": (
        {
            "optimizer": "sgd",
            "learning_rate": 0.05,
            "hyper_parameters": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
        },
        lambda p: optim.SGD(p, 0.05, 0.9, weight_decay=0.01, nesterov=True),
    ),
    "adam without epsilon": (
        {"optimizer": "adam", "learning_rate": 0.01, "hyper_parameters": {"epsilon": 0.0}},
        lambda p: optim.Adam(p, 0.01, eps=0.0),
    ),
    "adamw": (
        {"optimizer": "adamw", "learning_rate": 0.01},
        lambda p: optim.AdamW(p, 0.01),
    ),
    "rmsprop": (
        {"optimizer": "rmsprop", "learning_rate": 0.01},
        lambda p: optim.RMSprop(p, 0.01, alpha=0.9, eps=1e-7),
    ),
    "rmsprop, momentum and decay": (
        {
            "optimizer": "rmsprop",
            "learning_rate": 0.01,
            "hyper_parameters": {"rho": 0.99, "momentum": 0.9, "weight_decay": 0.01},
        },
        lambda p: optim.RMSprop(p, 0.01, eps=1e-7, weight_decay=0.01, momentum=0.9),
    ),
    "adagrad": (
        {"optimizer": "adagrad", "learning_rate": 0.05},
        lambda p: optim.Adagrad(p, 0.05),
    ),
    "lion": (
        {"optimizer": "lion", "learning_rate": 0.001},
        lambda p: pytorch_optimizer.Lion(p, 0.001),
    ),
    "lion and decay": (
        {"optimizer": "lion", "learning_rate": 0.001, "hyper_parameters": {"weight_decay": 0.1}},
        lambda p: pytorch_optimizer.Lion(p, 0.001, weight_decay=0.1),
    ),
    "adam, another rate for one weight": (
        {
            "optimizer": "adam",
            "learning_rate": 0.01,
            "hyper_parameters": {"epsilon": 0.0},
            "learning_rate_of": {"tico::p_0_weight": 0.25},
        },
        lambda p: optim.Adam([{"params": p[:1], "lr": 0.0025}, {"params": p[1:]}], 0.01, eps=0.0),
    ),
    "adafactor": (
        {"optimizer": "adafactor", "learning_rate": 0.05},
        lambda p: optim.Adafactor(p, 0.05, eps=(EPSILON, 1e-3)),
    ),
    "adafactor, decay": (
        {"optimizer": "adafactor", "learning_rate": 0.5, "hyper_parameters": {"weight_decay": 0.1}},
        lambda p: optim.Adafactor(p, 0.5, eps=(EPSILON, 1e-3), weight_decay=0.1),
    ),
}


# Name → options of odt.Trainer, and the reference's function that clips gradients.
CLIPPED: dict[str, tuple[dict[str, Any], Callable[[list[torch.Tensor]], object]]] = {
    "clipped by norm": (
        {"optimizer": "sgd", "learning_rate": 0.5, "clip_norm": 0.3},
        lambda p: torch.nn.utils.clip_grad_norm_(p, 0.3),
    ),
    "clipped by value": (
        {"optimizer": "sgd", "learning_rate": 0.5, "clip_value": 0.02},
        lambda p: torch.nn.utils.clip_grad_value_(p, 0.02),
    ),
}


def trajectory(scheduler: Callable[[Any], LRScheduler], steps: int) -> list[float]:
    """The learning rate of each step."""
    optimizer = optim.SGD([torch.zeros(1, requires_grad=True)], RATE)
    schedule = scheduler(optimizer)
    values = []
    for _ in range(steps):
        values.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        schedule.step()
    return values


def with_warmup(
    scheduler: Callable[[Any], LRScheduler], steps: int
) -> Callable[[Any], LRScheduler]:
    """A scheduler after steps of linear warm-up from a fraction of the rate."""

    def make(optimizer: Any) -> LRScheduler:
        warmup = rates.LinearLR(optimizer, 1 / steps, 1.0, steps - 1)
        return rates.SequentialLR(optimizer, [warmup, scheduler(optimizer)], [steps])

    return make


# Schedule as on the command line → the same one of torch.
SCHEDULES: dict[str, Callable[[Any], LRScheduler]] = {
    "constant": lambda o: rates.ConstantLR(o, 1.0),
    "constant:warmup_steps=5": with_warmup(lambda o: rates.ConstantLR(o, 1.0), 5),
    "step:decay_steps=4,decay_rate=0.5": lambda o: rates.StepLR(o, 4, 0.5),
    "exponential:decay_steps=10,decay_rate=0.3": lambda o: rates.ExponentialLR(o, 0.3**0.1),
    "exponential:decay_steps=7,decay_rate=0.3,staircase=true": lambda o: rates.StepLR(o, 7, 0.3),
    "polynomial:decay_steps=12,power=2": lambda o: rates.PolynomialLR(o, 12, 2.0),
    "polynomial:decay_steps=12,end_learning_rate=0.02": lambda o: rates.LinearLR(o, 1, 0.2, 12),
    "polynomial:decay_steps=12,warmup_steps=4": with_warmup(lambda o: rates.PolynomialLR(o, 12), 4),
    "cosine:decay_steps=20": lambda o: rates.CosineAnnealingLR(o, 20),
    "cosine:decay_steps=20,alpha=0.1": lambda o: rates.CosineAnnealingLR(o, 20, 0.1 * RATE),
    "cosine:decay_steps=16,warmup_steps=4": with_warmup(
        lambda o: rates.CosineAnnealingLR(o, 16), 4
    ),
    "cosine_restarts:decay_steps=3": lambda o: rates.CosineAnnealingWarmRestarts(o, 3, 2),
    "cosine_restarts:decay_steps=5,t_mul=1,alpha=0.2": lambda o: rates.CosineAnnealingWarmRestarts(
        o, 5, 1, 0.2 * RATE
    ),
    "one_cycle:decay_steps=20": lambda o: rates.OneCycleLR(o, RATE, 20),
    "one_cycle:decay_steps=20,pct_start=0.4,div_factor=10,final_div_factor=100": lambda o: (
        rates.OneCycleLR(o, RATE, 20, pct_start=0.4, div_factor=10, final_div_factor=100)
    ),
}

# Validation losses, and the schedules that reduce the rate by them. The patience is one more than
# torch's, as in Keras.
LOSSES = [1.0, 0.9, 0.95, 0.91, 0.92, 0.8, 0.81, 0.7999, 0.82, 0.83, 0.84, 0.85, 0.7, 0.7, 0.7, 0.7]
PLATEAUS: dict[str, dict[str, Any]] = {
    "plateau:patience=2,factor=0.5": {"factor": 0.5, "patience": 1},
    "plateau:patience=1,cooldown=2": {"factor": 0.1, "patience": 0, "cooldown": 2},
    "plateau:patience=2,min_delta=0.05,min_learning_rate=0.01": {
        "patience": 1,
        "threshold": 0.05,
        "min_lr": 0.01,
    },
}


def plateau(options: dict[str, Any]) -> list[float]:
    """The learning rate after each epoch."""
    optimizer = optim.SGD([torch.zeros(1, requires_grad=True)], RATE)
    defaults = {"threshold": 1e-4, "threshold_mode": "abs", "eps": 0.0}
    scheduler = rates.ReduceLROnPlateau(optimizer, **{**defaults, **options})
    values = []
    for loss in LOSSES:
        scheduler.step(loss)
        values.append(float(optimizer.param_groups[0]["lr"]))
    return values


def records() -> Iterator[tuple[str, dict[str, Any]]]:
    """Files by name."""
    versions = {name: version(name) for name in ("torch", "pytorch-optimizer")}
    updates = {name: {"options": o, **train(make)} for name, (o, make) in UPDATES.items()}
    updates |= {
        name: {"options": o, **train(lambda p: optim.SGD(p, 0.5), clip)}
        for name, (o, clip) in CLIPPED.items()
    }
    yield "updates.json", {"versions": versions, "batch_size": BATCH, "cases": updates}
    schedules = {text: trajectory(make, SCHEDULE_STEPS) for text, make in SCHEDULES.items()}
    plateaus = {text: plateau(options) for text, options in PLATEAUS.items()}
    expectations = {"schedules": schedules, "losses": LOSSES, "plateaus": plateaus}
    yield "schedules.json", {"versions": versions, "learning_rate": RATE, **expectations}


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def main(folder: Path) -> None:
    """Write the recorded files to FOLDER."""
    folder.mkdir(exist_ok=True)
    for name, record in records():
        (folder / name).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
