"""PyTorch: measure_torch.py NETWORK BATCH full|last FILES eager|channels-last|compiled"""

import os
import sys

import networks
import numpy as np
from measuring import Measurement

name, batch, mode, files, how = sys.argv[1], int(sys.argv[2]), *sys.argv[3:6]
os.environ["OMP_NUM_THREADS"] = "2"
os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{files}/inductor"
net = networks.NETWORKS[name]()
x, _, labels = networks.batch_of(net, batch)
x = np.ascontiguousarray(np.moveaxis(x, -1, 1))
measurement = Measurement()

import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402

torch.set_num_threads(2)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleDict()
        for k, layer in net.weights():
            if layer.kind == "dense":
                part = torch.nn.Linear(layer.w.shape[1], layer.w.shape[0])
                part.weight.data = torch.from_numpy(dense(k, layer))
            else:
                channels = net.shape_of(layer.sources[0])[2]
                groups = channels if layer.kind == "depthwise" else 1
                pads = layer.size // 2 if layer.same else 0  # symmetric, as its users have it
                part = torch.nn.Conv2d(
                    channels, layer.shape[2], layer.size, layer.stride, pads, groups=groups
                )
                order = (3, 0, 1, 2) if groups > 1 else (0, 3, 1, 2)
                part.weight.data = torch.from_numpy(layer.w.transpose(order).copy())
            part.bias.data = torch.from_numpy(layer.b.copy())
            self.parts[str(k)] = part

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = {-1: x}
        for k, layer in enumerate(net.layers):
            a = made[layer.sources[0]]
            if str(k) in self.parts:
                a = self.parts[str(k)](a)
            elif layer.kind == "max_pool":
                a = F.max_pool2d(a, layer.size)
            elif layer.kind == "mean_pool":
                a = F.avg_pool2d(a, layer.size)
            elif layer.kind == "mean":
                a = a.mean((2, 3))
            elif layer.kind == "flatten":
                a = a.flatten(1)
            elif layer.kind == "add":
                a = a + made[layer.sources[1]]
            made[k] = {"": lambda v: v, "relu": F.relu, "relu6": F.relu6}[layer.activation](a)
        return made[len(net.layers) - 1]


def dense(k: int, layer: networks.Layer) -> np.ndarray:
    """Weights for values in the order of channels-first images."""
    source = net.layers[layer.sources[0]] if layer.sources[0] >= 0 else None
    if source is None or source.kind != "flatten":
        return layer.w.copy()
    h, w, c = net.shape_of(source.sources[0])
    return layer.w.reshape(-1, h, w, c).transpose(0, 3, 1, 2).reshape(layer.w.shape).copy()


model, images, targets = Model(), torch.from_numpy(x), torch.from_numpy(labels)
if mode == "last":
    for key, p in model.named_parameters():
        p.requires_grad_(key.startswith(f"parts.{len(net.layers) - 1}."))
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
