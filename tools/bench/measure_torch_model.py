"""Converts a network to a PyTorch module with the same weights."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench.networks.layers import Array, Layer, Network

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu6": F.relu6,
    "hard_swish": F.hardswish,
    "hard_sigmoid": F.hardsigmoid,
    "swish": F.silu,
    "gelu": F.gelu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


class Function(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, f: Callable[..., Tensor]) -> None:
        super().__init__()
        self.f = f

    def forward(self, *xs: Tensor) -> Tensor:
        return self.f(*xs)


class Padded(nn.Module):
    """A module whose input is padded by different numbers at the two ends of an axis."""

    def __init__(self, inner: nn.Module, pads: tuple[int, ...], value: float) -> None:
        super().__init__()
        self.inner, self.value = inner, value
        ends = zip(pads[-2::-2], pads[::-2], strict=True)  # from the last axis to the first
        self.pads = tuple(n for pair in ends for n in pair)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(F.pad(x, self.pads, value=self.value))


class Offset(nn.Module):
    """Adds a weight."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight


class Last(nn.Module):
    """The last output of a recurrent layer, whose second bias stays 0."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer
        layer.bias_hh_l0.data.zero_()
        layer.bias_hh_l0.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0][:, -1]


class Attention(nn.Module):
    """Scaled dot-product attention of queries, keys and values (N, T, D)."""

    def __init__(self, heads: int, *, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal

    def forward(self, *projected: Tensor) -> Tensor:
        q, k, v = (a.unflatten(-1, (self.heads, -1)).transpose(1, 2) for a in projected)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return y.transpose(1, 2).flatten(2)


class Model(nn.Module):
    """A network for images (N, C, H, W), videos (N, C, T, H, W), sequences, tokens or vectors.

    Args:
        uneven: whether images are padded as in TFLite; else equally on both sides.
    """

    def __init__(self, net: Network, *, uneven: bool = False) -> None:
        super().__init__()
        self.parts = nn.ModuleList(part(net, layer, uneven) for layer in net.layers)
        self.sources = [layer.sources for layer in net.layers]
        self.activations = [ACTIVATIONS.get(layer.activation) for layer in net.layers]
        # An output is dropped after its last reader, as in code without a list of layers.
        readers = {s: k for k, sources in enumerate(self.sources) for s in sources}
        self.last_read = [[s for s in readers if readers[s] == k] for k in range(len(self.parts))]

    def forward(self, x: Tensor) -> Tensor:
        results = {-1: x}
        for k, (inner, activation) in enumerate(zip(self.parts, self.activations, strict=True)):
            y = inner(*(results[s] for s in self.sources[k]))
            results[k] = activation(y) if activation else y
            for s in self.last_read[k]:
                del results[s]
        return results[len(self.parts) - 1]

    def trained(self) -> list[nn.Parameter]:
        return [p for p in self.parameters() if p.requires_grad]

    def set_weights(self, net: Network) -> None:
        """Copies the seeded weights."""
        for layer, weights, part in zip(net.layers, net.draw(), self.parts, strict=True):
            inner = part.inner if isinstance(part, Padded) else part
            for key, values in weights.items():
                name = NAMES[key] + "_l0" if isinstance(part, Last) else SHORT[key]
                owner = inner.layer if isinstance(part, Last) else inner
                getattr(owner, name).data.copy_(
                    torch.from_numpy(to_torch_axes(net, layer, key, values))
                )


NAMES = {"w": "weight_ih", "r": "weight_hh", "b": "bias_ih"}
SHORT = {"w": "weight", "b": "bias"}


def part(net: Network, layer: Layer, uneven: bool) -> nn.Module:
    """Returns the module of a layer."""
    shape = net.shape_of(layer.sources[0])
    if layer.kind in ("lstm", "gru"):
        kind = {"lstm": nn.LSTM, "gru": nn.GRU}[layer.kind]
        return Last(kind(shape[1], layer.shape[0], batch_first=True))
    if layer.kind in FUNCTIONS:
        return Function(FUNCTIONS[layer.kind])
    if layer.kind == "mean":
        axes = tuple(range(2, 1 + len(shape))) if len(shape) > 2 else (1,)
        keep = len(layer.shape) > 1
        return Function(lambda x: x.mean(axes, keepdim=keep))
    if layer.kind == "attention":
        return Attention(layer.heads, causal=layer.causal)
    if layer.kind == "half":
        return Function(lambda x: x.chunk(2, 1)[layer.part])
    before, after = layer.pads[::2], layer.pads[1::2]
    is_padded = (uneven or layer.causal) and before != after
    padding = 0 if is_padded else layer.symmetric
    module = windowed(layer, shape, padding) or pointwise(net, layer)
    value = -math.inf if layer.kind == "max_pool" else 0.0
    return Padded(module, layer.pads, value) if is_padded else module


def windowed(
    layer: Layer, shape: tuple[int, ...], padding: int | tuple[int, ...]
) -> nn.Module | None:
    """Returns the module of a layer with windows, or None."""
    channels, units = shape[-1], layer.shape[-1]
    if layer.kind in ("conv", "depthwise"):
        groups = channels if layer.kind == "depthwise" else layer.groups
        dilation = (layer.dilation, 1)
        return nn.Conv2d(channels, units, layer.size, layer.stride, padding, dilation, groups)
    if layer.kind == "volume":
        return nn.Conv3d(channels, units, layer.size, layer.stride, padding)
    if layer.kind == "transposed":
        return nn.ConvTranspose2d(channels, units, layer.size, layer.stride)
    if layer.kind == "max_pool":
        return nn.MaxPool2d(layer.size, layer.stride, padding)
    return nn.AvgPool2d(layer.size, layer.stride, padding) if layer.kind == "mean_pool" else None


def pointwise(net: Network, layer: Layer) -> nn.Module:
    """Returns the module of a layer without windows."""
    channels = layer.shape[-1]
    if layer.kind == "norm" and layer.groups:
        if layer.groups == channels:
            return nn.InstanceNorm2d(channels, affine=True)
        return nn.GroupNorm(layer.groups, channels)
    makers = {
        "dense": lambda: nn.Linear(net.shape_of(layer.sources[0])[-1], channels),
        "embedding": lambda: nn.Embedding(net.vocabulary, channels),
        "offset": lambda: Offset(layer.shape),
        "prelu": lambda: nn.PReLU(channels),
        "norm": lambda: nn.LayerNorm(channels),
    }
    return makers[layer.kind]()


FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "flatten": lambda x: x.flatten(1),
    "max": lambda x: x.max(1).values,
    "swap": lambda x: x.transpose(1, 2),
    "shuffle": lambda x: x.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2),
    "tokens": lambda x: x.flatten(2).transpose(1, 2),
    "add": torch.add,
    "mul": torch.mul,
    "concat": lambda *xs: torch.cat(xs, 1),
    "upsample": lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
}


def to_torch_axes(net: Network, layer: Layer, key: str, w: Array) -> Array:
    """Returns a weight in PyTorch's order of axes; images are channels-first there."""
    image = net.reads_flattened(layer)
    if layer.kind == "dense" and key == "w" and image:
        return w.reshape(-1, *image).transpose(0, 3, 1, 2).reshape(w.shape)
    axes = {"conv": (0, 3, 1, 2), "depthwise": (3, 0, 1, 2), "transposed": (3, 0, 1, 2),
            "volume": (4, 3, 0, 1, 2)}  # fmt: skip
    return w.transpose(axes[layer.kind]) if layer.kind in axes and key == "w" else w
