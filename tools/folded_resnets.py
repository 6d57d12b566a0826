"""Residual networks trained by torch, with BatchNorm folded into the convolutions.

Converters fold BatchNorm into a convolution: each output channel of the filters is multiplied by
γ / √(variance + ε).
"""

# mypy: disallow-subclassing-any=False, warn-return-any=False

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from model_builder import ModelBuilder
from torch import Tensor, nn
from torch.nn import functional as F

Array = np.ndarray[Any, Any]
BATCH = 128
RATE, MOMENTUM, DECAY = 0.1, 0.9, 5e-4  # of SGD, as usual for ResNets on CIFAR-10
SHIFT = 3  # pixels by which images are shifted at most


class ConvNorm(nn.Module):
    """Convolution with the padding SAME of TFLite, then BatchNorm."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.stride, self.pads = stride, (0, 0)
        if kernel == 3:  # with stride 2, SAME pads even sizes at the end only
            self.pads = (1, 1) if stride == 1 else (0, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(F.pad(x, (*self.pads, *self.pads))))

    def folded(self) -> tuple[Array, Array]:
        """Filter (O, KH, KW, C) and bias (O) of the convolution that computes the same."""
        n = self.norm
        assert n.running_mean is not None
        assert n.running_var is not None
        factor = n.weight / torch.sqrt(n.running_var + n.eps)
        kernel = self.conv.weight * factor[:, None, None, None]
        bias = n.bias - n.running_mean * factor
        return kernel.detach().numpy().transpose(0, 2, 3, 1), bias.detach().numpy()


class Block(nn.Module):
    """relu(f(x) + x), where x passes a 1×1 convolution if the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = ConvNorm(inputs, outputs, 3, stride)
        self.second = ConvNorm(outputs, outputs, 3)
        changes = stride > 1 or inputs != outputs
        self.shortcut = ConvNorm(inputs, outputs, 1, stride) if changes else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(F.relu(self.first(x)))
        return F.relu(y + (self.shortcut(x) if self.shortcut else x))


class ResNet(nn.Module):
    """A stem, three stages of blocks with 16, 32 and 64 channels, a mean, a dense layer."""

    def __init__(self, channels: int, classes: int, blocks: int) -> None:
        super().__init__()
        self.stem = ConvNorm(channels, 16, 3)
        shapes = [(16, 1)] * blocks
        for width in (32, 64):
            shapes += [(width, 2), *[(width, 1)] * (blocks - 1)]
        inputs = [16, *(width for width, _ in shapes[:-1])]
        self.blocks = nn.ModuleList(
            Block(i, width, stride) for i, (width, stride) in zip(inputs, shapes, strict=True)
        )
        self.dense = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.stem(x))
        for block in self.blocks:
            y = block(y)
        return self.dense(y.mean((2, 3)))


def _batches(x: Tensor, y: Tensor, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """The batches of an epoch; half of the images are flipped, all are shifted."""
    order = torch.randperm(len(x), generator=generator)
    for numbers in order.split(BATCH):
        images = F.pad(x[numbers], (SHIFT,) * 4)
        dy, dx = (int(torch.randint(2 * SHIFT + 1, (1,), generator=generator)) for _ in range(2))
        images = images[:, :, dy : dy + x.shape[2], dx : dx + x.shape[3]]
        flips = torch.rand(len(numbers), generator=generator) < 0.5
        yield torch.where(flips[:, None, None, None], images.flip(3), images), y[numbers]


def train_resnet(
    path: Path, x: Array, y: Array, *, blocks: int, epochs: int, seed: int = 0
) -> None:
    """Trains a network and writes it as TFLite.

    Args:
        path: the file.
        x: images (N, H, W, C).
        y: targets (N, classes), one-hot.
        blocks: blocks of a stage.
        epochs: number of epochs.
        seed: random seed of the weights and of the order.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    net = ResNet(x.shape[3], y.shape[1], blocks)
    images = torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2)))
    labels = torch.from_numpy(y.argmax(1))
    optimizer = torch.optim.SGD(net.parameters(), RATE, MOMENTUM, weight_decay=DECAY, nesterov=True)
    steps = epochs * -(-len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    for _ in range(epochs):
        for inputs, targets in _batches(images, labels, generator):
            optimizer.zero_grad()
            F.cross_entropy(net(inputs), targets).backward()
            optimizer.step()
            schedule.step()
    net.eval()
    write(net, path, x.shape[1:])


def write(net: ResNet, path: Path, shape: tuple[int, ...]) -> None:
    """Writes the network, whose images have the shape (H, W, C), with a SOFTMAX."""
    b = ModelBuilder("tflite")

    def conv(norm: ConvNorm, x: int, **options: Any) -> int:
        kernel, bias = norm.folded()
        _, height, width, _ = b.graph.tensors[x].shape
        s = norm.stride
        inputs = (x, b.add_constant(kernel), b.add_constant(bias))
        out = (1, -(-height // s), -(-width // s), len(bias))
        return b.add_operator("CONV_2D", inputs, out, stride_w=s, stride_h=s, **options)

    relu: dict[str, Any] = {"fused_activation_function": 1}
    x = conv(net.stem, b.add_input((1, *shape)), **relu)
    for block in net.blocks:
        assert isinstance(block, Block)
        y = conv(block.second, conv(block.first, x, **relu))
        x = conv(block.shortcut, x) if block.shortcut else x
        x = b.add_operator("ADD", (y, x), b.graph.tensors[y].shape, **relu)
    axes, width = b.add_constant(np.array([1, 2], np.int32)), net.dense.in_features
    x = b.add_operator("MEAN", (x, axes), (1, width))
    values = net.dense.weight.detach().numpy(), net.dense.bias.detach().numpy()
    weights = [b.add_constant(v) for v in values]
    x = b.add_operator("FULLY_CONNECTED", (x, *weights), (1, net.dense.out_features))
    x = b.add_operator("SOFTMAX", (x,), (1, net.dense.out_features), beta=1.0)
    b.write(path, x)
