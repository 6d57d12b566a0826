"""PyTorch: measure_torch.py NETWORK BATCH full|last FILES eager|channels-last|compiled.

It makes its files the first time.
"""

import os
import sys
from pathlib import Path

import networks
import numpy as np
from measuring import Measurement, write_once

name, batch, mode, files, how = sys.argv[1], int(sys.argv[2]), *sys.argv[3:6]
os.environ["OMP_NUM_THREADS"] = "2"
os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{files}/inductor"
folder = Path(files) / "torch" / name


def write_model(made: Path) -> None:
    import torch
    from measure_torch_model import Model

    torch.save(Model(networks.NETWORKS[name]()), made / "model.pt")


write_once(folder, write_model)
x, _, labels = networks.random_batch(*networks.SAMPLES[name], batch)
x = np.ascontiguousarray(np.moveaxis(x, -1, 1))
measurement = Measurement()

import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402

torch.set_num_threads(2)
model = torch.load(folder / "model.pt", weights_only=False)
images, targets = torch.from_numpy(x), torch.from_numpy(labels)
if mode == "last":
    for key, p in model.named_parameters():
        p.requires_grad_(key.startswith(f"parts.{len(model.layers) - 1}."))
if how != "eager" and images.dim() == 4:
    model = model.to(memory_format=torch.channels_last)
    images = images.contiguous(memory_format=torch.channels_last)
trained = [p for p in model.parameters() if p.requires_grad]
adam = torch.optim.Adam(trained, 1e-5, eps=1e-7, fused=how != "eager" or None)


def loss_of(a: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(a), t)


compute = torch.compile(loss_of) if how == "compiled" else loss_of


def step() -> float:
    adam.zero_grad(set_to_none=True)
    loss = compute(images, targets)
    loss.backward()
    adam.step()
    return float(loss.item())


measurement.finish(step)
