"""PyTorch: measure_torch.py NETWORK BATCH full|last FILES eager|channels-last|compiled|bf16.

All but eager use channels-last images. The script makes its files the first time. PyTorch is
imported after the measurement begins, so that its time and memory count.
"""

import os
import sys
from pathlib import Path

import numpy as np

from bench import networks
from bench.measuring import Measurement, write_once

name, samples, mode, files, how = sys.argv[1:]
batch = int(samples)
os.environ["OMP_NUM_THREADS"] = "2"
os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{files}/inductor"
folder = Path(files) / "torch" / name
net = networks.NETWORKS[name]()


def write_weights(folder: Path) -> None:
    """Writes the seeded weights as PyTorch stores them."""
    import torch

    from bench.measure_torch_model import Model

    model = Model(net)
    model.set_weights(net)
    torch.save(model.state_dict(), folder / "weights.pt")


def channels_first(a: np.ndarray) -> np.ndarray:
    """Returns images and videos with the axis of channels second, and other arrays as they are."""
    return np.ascontiguousarray(np.moveaxis(a, -1, 1)) if a.ndim > 3 else a


write_once(folder, write_weights)
x, y = map(channels_first, networks.random_batch(net, batch))
if net.loss == "cce":
    y = y.argmax(1)
elif net.loss == "scce":
    y = y.ravel().astype(np.int64)
measurement = Measurement()

import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from bench.measure_torch_model import Model  # noqa: E402

torch.set_num_threads(2)
with torch.device("meta"):  # so that no weights are made beside those of the file
    model = Model(net)
model.load_state_dict(torch.load(folder / "weights.pt"), assign=True)
inputs, targets = torch.from_numpy(x), torch.from_numpy(y)
if mode == "last":
    for key, p in model.named_parameters():
        p.requires_grad_(key.startswith(f"parts.{net.last}."))
if how != "eager" and x.ndim > 3:
    last = torch.channels_last if x.ndim == 4 else torch.channels_last_3d
    model = model.to(memory_format=last)
    inputs = inputs.contiguous(memory_format=last)
trained = model.trained()
assert mode == "last" or sum(p.numel() for p in trained) == net.parameters
adam = torch.optim.Adam(trained, 1e-5, eps=1e-7, fused=True)


def loss_of(a: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """Returns the loss in float32 of inputs and targets."""
    with torch.autocast("cpu", torch.bfloat16, enabled=how == "bf16"):
        outputs = model(a)
    outputs = outputs.float()
    return (
        F.mse_loss(outputs, t) if net.loss == "mse" else F.cross_entropy(outputs.flatten(0, -2), t)
    )


compute = torch.compile(loss_of) if how == "compiled" else loss_of


def step() -> float:
    """Trains on the batch; returns the loss before the update."""
    adam.zero_grad(set_to_none=True)
    loss = compute(inputs, targets)
    loss.backward()
    adam.step()
    return float(loss.item())


measurement.finish(step)
