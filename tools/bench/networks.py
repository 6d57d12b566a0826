"""The networks that every system trains: layers in order, with seeded weights. NumPy only.

A layer reads its sources, or else the layer before it. Images are NHWC, filters OHWI, as in Circle;
the other layouts are made from these. Shapes are those of one sample.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float32]
Size = tuple[int, int]

# Variance of a layer's weights times its fan-in, for values that neither vanish nor explode; that
# of hard_swish is found by trying.
GAINS = {"": 1.0, "relu": 2.0, "relu6": 2.0, "hard_swish": 2.7, "hard_sigmoid": 1.0}


@dataclass
class Layer:
    """One layer: conv, depthwise, dense, max_pool, mean_pool, mean, flatten, add or mul.

    Attributes:
        sources: numbers of the layers that it reads; −1 is the input.
        shape: shape of its output.
        activation: "", relu, relu6, hard_swish or hard_sigmoid.
        size: (height, width) of its window.
        pads: zeros (top, bottom, left, right), as TFLite's SAME has them.
        w, b: weights, where it has any.
    """

    kind: str
    sources: tuple[int, ...]
    shape: tuple[int, ...]
    activation: str = ""
    size: Size = (1, 1)
    stride: int = 1
    same: bool = False
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    w: Weights | None = None
    b: Weights | None = None

    @property
    def symmetric(self) -> Size:
        """Returns symmetric padding, as is usual in other systems."""
        return max(self.pads[:2]), max(self.pads[2:])


@dataclass
class Network:
    """A network: its layers, and the number of classes."""

    name: str
    input: tuple[int, ...]
    layers: list[Layer] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1234))

    @property
    def classes(self) -> int:
        return self.layers[-1].shape[-1]

    def shape_of(self, number: int) -> tuple[int, ...]:
        return self.input if number < 0 else self.layers[number].shape

    def weights(self) -> Iterator[tuple[int, Layer]]:
        return ((k, layer) for k, layer in enumerate(self.layers) if layer.w is not None)

    @property
    def uneven(self) -> bool:
        """Whether TFLite pads any layer asymmetrically."""
        return any(a != b for layer in self.layers for a, b in (layer.pads[:2], layer.pads[2:]))

    def multiplications(self) -> int:
        """Number of multiplications of a forward pass of one sample."""
        total = 0
        for _, layer in self.weights():
            assert layer.w is not None
            total += int(np.prod(layer.shape[:-1])) * layer.w.size
        return total

    def _add(self, layer: Layer) -> int:
        self.layers.append(layer)
        return len(self.layers) - 1

    def _window(
        self, source: int, size: Size, stride: int, same: bool
    ) -> tuple[Size, tuple[int, int, int, int]]:
        """Returns outputs (height, width), and zeros (top, bottom, left, right)."""
        (h, top, bottom), (w, left, right) = (
            _along(length, taps, stride, same)
            for length, taps in zip(self.shape_of(source)[:2], size, strict=True)
        )
        return (h, w), (top, bottom, left, right)

    def _draw(self, *shape: int, gain: float) -> tuple[Weights, Weights]:
        fan_in = int(np.prod(shape[1:]))
        w = self.rng.normal(size=shape) * np.sqrt(gain / fan_in)
        return w.astype(np.float32), (self.rng.normal(size=shape[0]) * 0.05).astype(np.float32)

    def conv(
        self, units: int, size: int | Size, stride: int = 1, activation: str = "relu", *,
        same: bool = True, source: int | None = None, gain: float | None = None,
    ) -> int:  # fmt: skip
        source = len(self.layers) - 1 if source is None else source
        window = (size, size) if isinstance(size, int) else size
        out, pads = self._window(source, window, stride, same)
        gain = GAINS[activation] if gain is None else gain
        w, b = self._draw(units, *window, self.shape_of(source)[2], gain=gain)
        return self._add(
            Layer("conv", (source,), (*out, units), activation, window, stride, same, pads, w, b)
        )

    def depthwise(self, size: int, stride: int, activation: str) -> int:
        source, window = len(self.layers) - 1, (size, size)
        channels = self.shape_of(source)[2]
        out, pads = self._window(source, window, stride, True)
        w, b = self._draw(channels, *window, 1, gain=GAINS[activation])
        w = np.ascontiguousarray(w.transpose(3, 1, 2, 0))
        shape = (*out, channels)
        return self._add(
            Layer("depthwise", (source,), shape, activation, window, stride, True, pads, w, b)
        )

    def pool(self, kind: str, size: int) -> int:
        source, window = len(self.layers) - 1, (size, size)
        out, _ = self._window(source, window, size, False)
        return self._add(Layer(kind, (source,), (*out, self.shape_of(source)[2]), "", window, size))

    def mean(self, *, keep: bool = False) -> int:
        """Adds the mean of each channel: (C,), or (1, 1, C) if the axes are kept."""
        source = len(self.layers) - 1
        channels = self.shape_of(source)[2:]
        return self._add(Layer("mean", (source,), (1, 1, *channels) if keep else channels))

    def squeeze(self, units: int) -> int:
        """Adds squeeze-and-excitation: scales channels by factors computed from their means."""
        source = len(self.layers) - 1
        shape = self.shape_of(source)
        self.mean(keep=True)
        self.conv(units, 1)
        factors = self.conv(shape[2], 1, 1, "hard_sigmoid")
        return self._add(Layer("mul", (source, factors), shape))

    def flatten(self) -> int:
        source = len(self.layers) - 1
        return self._add(Layer("flatten", (source,), (int(np.prod(self.shape_of(source))),)))

    def add(self, a: int, b: int, activation: str = "") -> int:
        return self._add(Layer("add", (a, b), self.shape_of(a), activation))

    def dense(self, units: int, activation: str = "") -> int:
        source = len(self.layers) - 1
        w, b = self._draw(units, self.shape_of(source)[0], gain=GAINS[activation])
        return self._add(Layer("dense", (source,), (units,), activation, w=w, b=b))


def _along(length: int, taps: int, stride: int, same: bool) -> tuple[int, int, int]:
    """Returns the number of outputs along an axis, and the zeros before and after."""
    if not same:
        return (length - taps) // stride + 1, 0, 0
    out = -(-length // stride)
    zeros = max((out - 1) * stride + taps - length, 0)
    return out, zeros // 2, zeros - zeros // 2


def mlp(width: int = 128, depth: int = 1) -> Network:
    """784 → width, `depth` times → 10."""
    net = Network("mlp", (784,))
    for _ in range(depth):
        net.dense(width, "relu")
    net.dense(10)
    return net


def mnist() -> Network:
    """Two convolutions of 3×3, each pooled, and a dense layer."""
    net = Network("mnist", (28, 28, 1))
    for units in (32, 64):
        net.conv(units, 3, same=False)
        net.pool("max_pool", 2)
    net.flatten()
    net.dense(10)
    return net


def resnet8() -> Network:
    """MLPerf Tiny's residual network for 32×32 images."""
    net = Network("resnet8", (32, 32, 3))
    last = net.conv(16, 3)
    for k, units in enumerate((16, 32, 64)):
        stride = 1 if k == 0 else 2
        inner = net.conv(units, 3, stride, source=last)
        inner = net.conv(units, 3, 1, "", source=inner)
        short = last if k == 0 else net.conv(units, 1, stride, "", source=last)
        last = net.add(short, inner, "relu")
    net.pool("mean_pool", 8)
    net.flatten()
    net.dense(10)
    return net


def dscnn() -> Network:
    """MLPerf Tiny's depthwise-separable network that spots keywords in ten MFCCs of 49 frames."""
    net = Network("dscnn", (49, 10, 1))
    net.conv(64, (10, 4), 2)
    for _ in range(4):
        net.depthwise(3, 1, "relu")
        net.conv(64, 1)
    net.mean()
    net.dense(12)
    return net


STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
          (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip


def mobilenet(size: int = 224, classes: int = 1000) -> Network:
    """MobileNetV2, its normalizations folded."""
    net = Network("mobilenet", (size, size, 3))
    last = net.conv(32, 3, 2, "relu6")
    for expansion, units, repeats, first in STAGES:
        for k in range(repeats):
            before, channels = last, net.shape_of(last)[2]
            stride = first if k == 0 else 1
            if expansion != 1:
                net.conv(channels * expansion, 1, 1, "relu6")
            net.depthwise(3, stride, "relu6")
            same = stride == 1 and channels == units
            last = net.conv(units, 1, 1, "", gain=0.25 if same else 1.0)
            if same:
                last = net.add(before, last)
    net.conv(1280, 1, 1, "relu6")
    net.mean()
    net.dense(classes)
    return net


# Window, expanded channels, channels, squeezed channels or 0, stride.
BLOCKS = ((3, 16, 16, 8, 2), (3, 72, 24, 0, 2), (3, 88, 24, 0, 1), (5, 96, 40, 24, 2),
          (5, 240, 40, 64, 1), (5, 240, 40, 64, 1), (5, 120, 48, 32, 1), (5, 144, 48, 40, 1),
          (5, 288, 96, 72, 2), (5, 576, 96, 144, 1), (5, 576, 96, 144, 1))  # fmt: skip


def mobilenetv3(size: int = 96, classes: int = 10) -> Network:
    """MobileNetV3-Small, its normalizations folded: RELU in the first three blocks."""
    net = Network("mobilenetv3", (size, size, 3))
    last = net.conv(16, 3, 2, "hard_swish")
    for k, (window, expanded, units, squeezed, stride) in enumerate(BLOCKS):
        before, channels = last, net.shape_of(last)[2]
        activation = "relu" if k < 3 else "hard_swish"
        if expanded != channels:
            net.conv(expanded, 1, 1, activation)
        net.depthwise(window, stride, activation)
        if squeezed:
            net.squeeze(squeezed)
        same = stride == 1 and channels == units
        last = net.conv(units, 1, 1, "", gain=4.0 if squeezed else 1.0)  # factors of about ½
        if same:
            last = net.add(before, last)
    net.conv(576, 1, 1, "hard_swish")
    net.mean()
    net.dense(1024, "hard_swish")
    net.dense(classes)
    return net


NETWORKS = {
    "mlp": mlp,
    "mnist": mnist,
    "resnet8": resnet8,
    "dscnn": dscnn,
    "mobilenetv3": mobilenetv3,
    "mobilenet": mobilenet,
}


# Shape of a sample and classes: a process that measures memory must not draw weights to know them.
SAMPLES = {
    "mlp": ((784,), 10),
    "mnist": ((28, 28, 1), 10),
    "resnet8": ((32, 32, 3), 10),
    "dscnn": ((49, 10, 1), 12),
    "mobilenetv3": ((96, 96, 3), 10),
    "mobilenet": ((224, 224, 3), 1000),
}


def batch_of(net: Network, samples: int) -> tuple[Weights, Weights, NDArray[np.int64]]:
    """Makes a batch that the network can learn."""
    return random_batch(net.input, net.classes, samples)


def random_batch(
    shape: tuple[int, ...], classes: int, samples: int
) -> tuple[Weights, Weights, NDArray[np.int64]]:
    """Returns random inputs, one-hot targets, and the targets as class numbers."""
    rng = np.random.default_rng(3)
    x = rng.random((samples, *shape), np.float32)
    labels = rng.integers(0, min(classes, 10), samples)
    y = np.zeros((samples, classes), np.float32)
    y[np.arange(samples), labels] = 1
    return x, y, labels
