"""Converts a network to a PyTorch module, and to the file that measure_torch.py reads."""

import dataclasses

import networks
import numpy as np
import torch
from torch.nn import functional as F

ACTIVATIONS = {
    "": lambda a: a,
    "relu": F.relu,
    "relu6": F.relu6,
    "hard_swish": F.hardswish,
    "hard_sigmoid": F.hardsigmoid,
}


class Model(torch.nn.Module):
    """Module with the layers that have weights, by number."""

    def __init__(self, net: networks.Network) -> None:
        super().__init__()
        self.layers = [dataclasses.replace(layer, w=None, b=None) for layer in net.layers]
        self.parts = torch.nn.ModuleDict({str(k): part(net, layer) for k, layer in net.weights()})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = {-1: x}
        for k, layer in enumerate(self.layers):
            a = made[layer.sources[0]]
            if str(k) in self.parts:
                a = self.parts[str(k)](a)
            elif layer.kind == "max_pool":
                a = F.max_pool2d(a, layer.size)
            elif layer.kind == "mean_pool":
                a = F.avg_pool2d(a, layer.size)
            elif layer.kind == "mean":
                a = a.mean((2, 3), keepdim=len(layer.shape) > 1)
            elif layer.kind == "flatten":
                a = a.flatten(1)
            elif layer.kind == "add":
                a = a + made[layer.sources[1]]
            elif layer.kind == "mul":
                a = a * made[layer.sources[1]]
            made[k] = ACTIVATIONS[layer.activation](a)
        return made[len(self.layers) - 1]


def part(net: networks.Network, layer: networks.Layer) -> torch.nn.Module:
    """Returns the module of a layer, with its weights."""
    if layer.kind == "dense":
        made = torch.nn.Linear(layer.w.shape[1], layer.w.shape[0])
        w = dense(net, layer)
    else:
        channels = net.shape_of(layer.sources[0])[2]
        groups = channels if layer.kind == "depthwise" else 1
        made = torch.nn.Conv2d(
            channels, layer.shape[2], layer.size, layer.stride, layer.symmetric, groups=groups
        )
        w = layer.w.transpose((3, 0, 1, 2) if groups > 1 else (0, 3, 1, 2))
    made.weight.data = torch.from_numpy(w.copy())
    made.bias.data = torch.from_numpy(layer.b.copy())
    return made


def dense(net: networks.Network, layer: networks.Layer) -> np.ndarray:
    """Returns weights for values in the order of channels-first images."""
    source = net.layers[layer.sources[0]] if layer.sources[0] >= 0 else None
    if source is None or source.kind != "flatten":
        return layer.w
    h, w, c = net.shape_of(source.sources[0])
    return layer.w.reshape(-1, h, w, c).transpose(0, 3, 1, 2).reshape(layer.w.shape)
