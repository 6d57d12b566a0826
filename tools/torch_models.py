"""The torch modules of make_torch_models.py: small networks of the kinds that people convert.

The statistics of BatchNorm stay unchanged in training: a converted model has them as part of the
factors and summands, or of the weights, that replace BatchNorm.
"""
# mypy: disallow-subclassing-any=False, warn-return-any=False

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Recipe:
    """One network and how it is trained.

    Attributes:
        build: returns the module, whose weights are drawn later.
        inputs: shapes of one sample, without N.
        loss: "mse", or "cce" on logits.
        vocabulary: the inputs are int32 below this; 0 for floats.
        rate: learning rate of SGD; Adam's is 0.001.
    """

    build: Callable[[], nn.Module]
    inputs: Sequence[tuple[int, ...]]
    loss: str = "cce"
    vocabulary: int = 0
    rate: float = 0.05


class Residual(nn.Module):
    """x + f(x), then an activation."""

    def __init__(self, inner: nn.Module, after: nn.Module | None = None) -> None:
        super().__init__()
        self.inner = inner
        self.after = after or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.after(x + self.inner(x))


def norm_conv(inputs: int, outputs: int, kernel: int = 3, **options: int) -> nn.Sequential:
    """Convolution without bias, then BatchNorm."""
    conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False, **options)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


def head(channels: int, classes: int = 5) -> nn.Sequential:
    """Global average, then logits."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def cnn() -> nn.Module:
    return nn.Sequential(
        *(norm_conv(3, 8), nn.ReLU(), nn.MaxPool2d(2)),
        *(norm_conv(8, 12), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.5), nn.Linear(12 * 3 * 3, 5)),
    )


def depthwise() -> nn.Module:
    """A MobileNet of two inverted residual blocks."""

    def inverted(channels: int, hidden: int) -> nn.Module:
        return Residual(
            nn.Sequential(
                *(norm_conv(channels, hidden, 1), nn.ReLU6()),
                *(norm_conv(hidden, hidden, 3, groups=hidden), nn.ReLU6()),
                norm_conv(hidden, channels, 1),
            )
        )

    stem = (norm_conv(3, 8, 3, stride=2), nn.ReLU6())
    return nn.Sequential(*stem, inverted(8, 16), inverted(8, 16), head(8))


def residual() -> nn.Module:
    def block(channels: int) -> nn.Module:
        inner = (norm_conv(channels, channels), nn.ReLU(), norm_conv(channels, channels))
        return Residual(nn.Sequential(*inner), nn.ReLU())

    stem = (norm_conv(3, 8), nn.ReLU(), block(8))
    return nn.Sequential(*stem, norm_conv(8, 12, 3, stride=2), nn.ReLU(), block(12), head(12))


class Attention(nn.Module):
    """Multi-head self-attention, written with elementary operators."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.queries, self.keys, self.values, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape

        def split(a: Tensor) -> Tensor:
            return a.reshape(n, length, self.heads, -1).transpose(1, 2)

        q, k, v = split(self.queries(x)), split(self.keys(x)), split(self.values(x))
        weights = (q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(n, length, width))


class Transformer(nn.Module):
    """Embeddings of tokens and positions, pre-norm layers, and the mean over the tokens."""

    def __init__(self, tokens: int = 40, length: int = 10, width: int = 16) -> None:
        super().__init__()
        self.tokens = nn.Embedding(tokens, width)
        self.places = nn.Parameter(torch.zeros(1, length, width))
        self.layers = nn.Sequential(*(self._layer(width) for _ in range(2)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 5))

    @staticmethod
    def _layer(width: int) -> nn.Module:
        mlp = (nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        return nn.Sequential(
            Residual(nn.Sequential(nn.LayerNorm(width), Attention(width, 2))),
            Residual(nn.Sequential(nn.LayerNorm(width), *mlp)),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layers(self.tokens(tokens) + self.places).mean(1))


class TorchEncoder(nn.Module):
    """PyTorch's own encoder layer, pre-norm, ReLU.

    Post-norm converts too, but tico multiplies the norm into one of its two readers only: one
    weight in torch becomes two in the file, and they train differently.
    """

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 2, 24, batch_first=True, norm_first=True)
        self.layer = layer
        self.head = nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[:, 0])


def autoencoder() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 3, stride=2, padding=1), nn.ReLU()),
        *(nn.Conv2d(6, 8, 3, stride=2, padding=1), nn.ReLU()),
        *(nn.ConvTranspose2d(8, 6, 2, stride=2), nn.ReLU()),
        *(nn.ConvTranspose2d(6, 1, 2, stride=2), nn.Sigmoid()),
    )


class UNet(nn.Module):
    """Down once and up again, with the skip concatenated."""

    def __init__(self, mode: str = "nearest") -> None:
        super().__init__()
        self.down = nn.Sequential(norm_conv(1, 6), nn.ReLU())
        self.deep = nn.Sequential(nn.MaxPool2d(2), norm_conv(6, 8), nn.ReLU())
        self.up = nn.Upsample(scale_factor=2, mode=mode)
        self.out = nn.Sequential(norm_conv(14, 6), nn.ReLU(), nn.Conv2d(6, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        skip = self.down(x)
        return self.out(torch.cat([self.up(self.deep(skip)), skip], 1))


def mlp() -> nn.Module:
    """An MLP with dropout, which is off after conversion."""
    return nn.Sequential(
        *(nn.Linear(12, 32), nn.Tanh(), nn.Dropout(0.2)),
        *(nn.Linear(32, 16), nn.ELU(), nn.BatchNorm1d(16), nn.Linear(16, 3)),
    )


def activations() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding="same"), nn.SiLU()),
        *(nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.Hardswish()),
        *(nn.Conv2d(8, 8, 1), nn.PReLU(8), nn.Conv2d(8, 8, 1), nn.LeakyReLU(0.1)),
        *(nn.Conv2d(8, 8, 1), nn.Mish(), nn.Conv2d(8, 8, 1), nn.GELU(approximate="tanh")),
        *(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(128, 5)),
    )


class Squeeze(nn.Module):
    """Squeeze and excitation: scales each channel by weights computed from global averages."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            *(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, 4, 1), nn.ReLU()),
            *(nn.Conv2d(4, channels, 1), nn.Hardsigmoid()),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


def squeeze_excite() -> nn.Module:
    return nn.Sequential(norm_conv(3, 8), nn.Hardswish(), Squeeze(8), norm_conv(8, 8), head(8))


def group_norm() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU()),
        *(nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.GroupNorm(4, 8), nn.ReLU(), head(8)),
    )


def instance_norm() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.InstanceNorm2d(8, affine=True), nn.ReLU()),
        *(nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.InstanceNorm2d(8, affine=True)),
        *(nn.Flatten(), nn.Linear(128, 5)),
    )


class Gated(nn.Module):
    """Gated feed-forward layer (SwiGLU): silu(a(x)) · b(x)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.out = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.silu(self.a(x)) * self.b(x))


def rms_norm() -> nn.Module:
    inner = nn.Sequential(nn.RMSNorm(12, eps=1e-5), Gated(12))
    return nn.Sequential(Residual(inner), nn.RMSNorm(12, eps=1e-5), nn.Flatten(), nn.Linear(72, 5))


class Bag(nn.Module):
    """The mean of a text's embeddings, then two layers."""

    def __init__(self, tokens: int = 60) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, 16)
        self.head = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.embedding(tokens).mean(1))


class Mix(nn.Module):
    """An MLP over the axis of tokens."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(length, 12), nn.GELU(), nn.Linear(12, length))

    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(x.transpose(1, 2)).transpose(1, 2)


class Mixer(nn.Module):
    """Patches of 4×4, mixed along tokens and along channels."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        channels = (nn.Linear(width, 24), nn.GELU(), nn.Linear(24, width))
        self.layers = nn.Sequential(
            Residual(nn.Sequential(nn.LayerNorm(width), Mix(9))),
            Residual(nn.Sequential(nn.LayerNorm(width), *channels)),
            nn.LayerNorm(width),
        )
        self.head = nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(self.patches(x).flatten(2).transpose(1, 2)).mean(1))


class Pools(nn.Module):
    """Kinds of pooling side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.max = nn.MaxPool2d(3, 2, 1)
        self.average = nn.AvgPool2d(3, 2, 1)
        self.head = nn.Linear(24, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv(x))
        y = torch.cat([self.max(x), self.average(x)], 1)
        return self.head(torch.cat([y.mean((2, 3)), F.max_pool2d(x, 8).flatten(1)], 1))


class Signal(nn.Module):
    """Convolutions over time."""

    def __init__(self, *norm: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv1d(4, 8, 5, padding=2), *norm, nn.ReLU()),
            *(nn.Conv1d(8, 8, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 5)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Recurrent(nn.Module):
    """A recurrent layer, then a dense layer of the mean of its outputs or of the last output.

    The recurrent layer has no bias: tico computes W·0 + b of the first step during conversion,
    which makes b another weight.
    """

    def __init__(self, layer: type[nn.Module], last: bool = False) -> None:
        super().__init__()
        self.layer = layer(4, 8, bias=False, batch_first=True)
        self.head = nn.Linear(8, 5)
        self.last = last

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)[0]
        return self.head(y[:, -1] if self.last else y.mean(1))


class Cells(nn.Module):
    """A recurrent cell from a given state, unrolled by hand."""

    def __init__(self, cell: type[nn.Module]) -> None:
        super().__init__()
        self.cell = cell(4, 8)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        is_lstm = isinstance(self.cell, nn.LSTMCell)
        states = (state, state) if is_lstm else state
        for t in range(x.shape[1]):
            states = self.cell(x[:, t], states)
        return self.head(states[0] if is_lstm else states)


class TwoInputs(nn.Module):
    """A picture and a table side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.picture = nn.Sequential(norm_conv(3, 8, 3, stride=2), nn.ReLU(), head(8, 8))
        self.table = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.head = nn.Linear(16, 2)

    def forward(self, picture: Tensor, table: Tensor) -> Tensor:
        return self.head(torch.cat([self.picture(picture), self.table(table)], -1))


PICTURE = ((3, 12, 12),)
RECIPES: dict[str, Recipe] = {
    "cnn": Recipe(cnn, PICTURE),
    "depthwise": Recipe(depthwise, PICTURE),
    "residual": Recipe(residual, PICTURE),
    "transformer": Recipe(Transformer, [(10,)], vocabulary=40),
    "torch_encoder": Recipe(TorchEncoder, [(6, 12)]),
    "autoencoder": Recipe(autoencoder, [(1, 12, 12)], "mse"),
    "unet_nearest": Recipe(UNet, [(1, 8, 8)], "mse"),
    "mlp": Recipe(mlp, [(12,)]),
    "activations": Recipe(activations, [(3, 8, 8)]),
    "squeeze_excite": Recipe(squeeze_excite, [(3, 8, 8)]),
    "group_norm": Recipe(group_norm, [(3, 8, 8)]),
    "instance_norm": Recipe(instance_norm, [(3, 8, 8)]),
    "rms_norm": Recipe(rms_norm, [(6, 12)]),
    "bag": Recipe(Bag, [(12,)], vocabulary=60),
    "mixer": Recipe(Mixer, PICTURE),
    "pools": Recipe(Pools, [(3, 8, 8)]),
    "signal": Recipe(Signal, [(4, 16)]),
    "rnn": Recipe(lambda: Recurrent(nn.RNN), [(5, 4)]),
    "gru": Recipe(lambda: Recurrent(nn.GRU), [(5, 4)]),
    "lstm": Recipe(lambda: Recurrent(nn.LSTM), [(5, 4)]),
    "rnn_cell": Recipe(lambda: Cells(nn.RNNCell), [(5, 4), (8,)]),
    "gru_cell": Recipe(lambda: Cells(nn.GRUCell), [(5, 4), (8,)]),
    "lstm_cell": Recipe(lambda: Cells(nn.LSTMCell), [(5, 4), (8,)]),
    "two_inputs": Recipe(TwoInputs, [(3, 8, 8), (6,)], "mse"),
}

# What tico 0.3.0 refuses; docs/pytorch.md says what to write instead.
REFUSED: dict[str, Recipe] = {
    "bilinear upsampling": Recipe(lambda: UNet("bilinear"), [(1, 8, 8)]),
    "BatchNorm1d over time": Recipe(lambda: Signal(nn.BatchNorm1d(8)), [(4, 16)]),
    "last output of nn.RNN": Recipe(lambda: Recurrent(nn.RNN, True), [(5, 4)]),
    "last output of nn.GRU": Recipe(lambda: Recurrent(nn.GRU, True), [(5, 4)]),
    "last output of nn.LSTM": Recipe(lambda: Recurrent(nn.LSTM, True), [(5, 4)]),
    "adaptive maximum": Recipe(lambda: nn.AdaptiveMaxPool2d(1), PICTURE),
    "transposed convolution over time": Recipe(lambda: nn.ConvTranspose1d(4, 4, 2), [(4, 16)]),
    "embedding bag": Recipe(lambda: nn.EmbeddingBag(9, 4), [(6,)], vocabulary=9),
    "nn.MultiheadAttention's fast path": Recipe(TorchEncoder, [(6, 12)]),
}
