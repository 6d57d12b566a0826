"""Layers of a network, in order, with seeded weights. NumPy only.

A method of Network adds a layer, which reads a given source, or else the layer before it. Images
are NHWC, filters OHWI, as in Circle; the other layouts are made from these. Shapes are those of one
sample: (H, W, C) for an image, (T, H, W, C) for a video, (T, D) for a sequence, (D,) for a vector.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Size = tuple[int, ...]  # height and width; of volumes depth, height and width
Pads = tuple[int, ...]  # zeros before and after each of these axes
Drawn = list[dict[str, Array]]  # weights of each layer by name

# Variance of a layer's weights times its fan-in, for values that neither vanish nor explode; those
# of hard_swish and swish are empirical.
GAINS = {"": 1.0, "relu": 2.0, "relu6": 2.0, "hard_swish": 2.7, "swish": 2.7, "gelu": 2.0,
         "hard_sigmoid": 1.0, "sigmoid": 1.0, "tanh": 1.0}  # fmt: skip
BIAS = 0.05  # standard deviation


@dataclass(frozen=True)
class Weight:
    """Random values of a weight: their shape, standard deviation and mean.

    Attributes:
        axes: permutation to the shape in Circle; empty if that is the shape.
    """

    shape: tuple[int, ...]
    deviation: float
    mean: float = 0.0
    axes: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def draw(self, rng: np.random.Generator) -> Array:
        values = (rng.normal(size=self.shape) * self.deviation + self.mean).astype(np.float32)
        return np.ascontiguousarray(values.transpose(self.axes)) if self.axes else values


def matrix(*shape: int, gain: float = 1.0) -> Weight:
    """A weight whose first axis is that of the outputs."""
    return Weight(shape, math.sqrt(gain / math.prod(shape[1:])))


@dataclass
class Layer:
    """One layer.

    Attributes:
        kind: conv, volume (a convolution of a video), depthwise, transposed, dense, max_pool,
            mean_pool, mean, max (of a sequence), flatten, tokens (an image's pixels as a sequence),
            swap (a sequence's axes), add, mul, concat, half (of the channels), shuffle (the
            channels of two halves), upsample, embedding, offset (adds a weight), norm, prelu,
            attention, lstm or gru (the last output).
        sources: numbers of the layers that it reads; −1 is the input.
        shape: shape of its output.
        activation: "" or a key of GAINS.
        size, stride: of its window.
        same: whether the padding is SAME, not VALID.
        pads: zeros around an image, as TFLite's SAME has them, or before it if it is causal.
        dilation: steps between the taps of a window along the height.
        causal: whether windows end at their output's row, or attention at its token.
        part: number of a half.
        groups: number of groups of channels. `norm` normalizes each group separately, or each token
            if there are 0 groups. A filter of `conv` reads one group.
        heads: heads of attention.
        unrolled: whether a file has a node for each operation of each time step.
        weights: weights by name.
        multiplications: number of multiplications of a forward pass.
    """

    kind: str
    sources: tuple[int, ...]
    shape: tuple[int, ...]
    activation: str = ""
    size: Size = (1, 1)
    stride: int = 1
    same: bool = False
    pads: Pads = (0, 0, 0, 0)
    groups: int = 0
    heads: int = 1
    dilation: int = 1
    causal: bool = False
    part: int = 0
    unrolled: bool = False
    weights: dict[str, Weight] = field(default_factory=dict)
    multiplications: int = 0

    @property
    def symmetric(self) -> Size:
        """Symmetric padding, as is usual in other systems."""
        return tuple(map(max, zip(self.pads[::2], self.pads[1::2], strict=True)))


@dataclass
class Network:
    """A network: its layers, and what it learns.

    Attributes:
        input: shape of a sample.
        loss: "cce" with a class for each sample, "scce" with a class for each token, or "mse" with
            targets of the output's shape.
        vocabulary: number of different tokens if the inputs are tokens, else 0.
        float_tokens: whether tokens are float32.
    """

    input: tuple[int, ...]
    loss: str = "cce"
    vocabulary: int = 0
    float_tokens: bool = False
    layers: list[Layer] = field(default_factory=list)

    @property
    def output(self) -> tuple[int, ...]:
        return self.layers[-1].shape

    @property
    def last(self) -> int:
        return len(self.layers) - 1

    @property
    def uneven(self) -> bool:
        """Whether TFLite pads any layer asymmetrically."""
        layers = [layer for layer in self.layers if not layer.causal]  # all systems pad these so
        return any(layer.pads[::2] != layer.pads[1::2] for layer in layers)

    @property
    def parameters(self) -> int:
        return sum(w.size for layer in self.layers for w in layer.weights.values())

    @property
    def multiplications(self) -> int:
        """Number of multiplications of a forward pass of one sample."""
        return sum(layer.multiplications for layer in self.layers)

    def draw(self) -> Drawn:
        """Draws the weights of all layers."""
        rng = np.random.default_rng(1234)
        return [{k: w.draw(rng) for k, w in layer.weights.items()} for layer in self.layers]

    def shape_of(self, number: int) -> tuple[int, ...]:
        return self.input if number < 0 else self.layers[number].shape

    def reads_flattened(self, layer: Layer) -> tuple[int, ...]:
        """The shape of the image whose pixels a dense layer reads; () if it reads none."""
        source = layer.sources[0]
        if source < 0 or self.layers[source].kind != "flatten":
            return ()
        shape = self.shape_of(self.layers[source].sources[0])
        return shape if len(shape) == 3 else ()

    def _add(self, layer: Layer) -> int:
        self.layers.append(layer)
        return self.last

    def _source(self, source: int | None) -> tuple[int, tuple[int, ...]]:
        number = self.last if source is None else source
        return number, self.shape_of(number)

    def conv(
        self, units: int, size: int | Size, stride: int = 1, activation: str = "relu", *,
        same: bool = True, source: int | None = None, gain: float | None = None, groups: int = 1,
    ) -> int:  # fmt: skip
        number, shape = self._source(source)
        window = (size, size) if isinstance(size, int) else size
        out, pads = _window(shape, window, stride, same)
        gain = GAINS[activation] if gain is None else gain
        w = matrix(units, *window, shape[2] // groups, gain=gain)
        return self._add(
            Layer("conv", (number,), (*out, units), activation, window, stride, same, pads, groups,
                  weights={"w": w, "b": Weight((units,), BIAS)},
                  multiplications=math.prod(out) * w.size)
        )  # fmt: skip

    def causal(
        self, units: int, taps: int, dilation: int, activation: str = "relu", *,
        source: int | None = None,
    ) -> int:  # fmt: skip
        """Adds a dilated convolution along the rows of an image, which reads none that follow."""
        number, shape = self._source(source)
        w = matrix(units, taps, 1, shape[2], gain=GAINS[activation])
        pads = ((taps - 1) * dilation, 0, 0, 0)
        return self._add(
            Layer("conv", (number,), (*shape[:2], units), activation, (taps, 1), 1, False, pads, 1,
                  dilation=dilation, causal=True, weights={"w": w, "b": Weight((units,), BIAS)},
                  multiplications=math.prod(shape[:2]) * w.size)
        )  # fmt: skip

    def volume(self, units: int, size: int, stride: int = 1, activation: str = "relu") -> int:
        number, shape = self._source(None)
        parts = [_along(length, size, stride, True) for length in shape[:3]]
        out, pads = tuple(p[0] for p in parts), tuple(n for p in parts for n in p[1:])
        deviation = math.sqrt(GAINS[activation] / (size**3 * shape[3]))
        w = Weight((units, size, size, size, shape[3]), deviation, axes=(1, 2, 3, 4, 0))
        return self._add(
            Layer("volume", (number,), (*out, units), activation, (size,) * 3, stride, True, pads,
                  weights={"w": w, "b": Weight((units,), BIAS)},
                  multiplications=math.prod(out) * w.size)
        )  # fmt: skip

    def depthwise(
        self, size: int | Size, stride: int, activation: str, *, multiplier: int = 1,
        same: bool = True, source: int | None = None,
    ) -> int:  # fmt: skip
        number, shape = self._source(source)
        window = (size, size) if isinstance(size, int) else size
        out, pads = _window(shape, window, stride, same)
        channels = shape[2] * multiplier
        deviation = math.sqrt(GAINS[activation] / math.prod(window))
        w = Weight((channels, *window, 1), deviation, axes=(3, 1, 2, 0))
        return self._add(
            Layer("depthwise", (number,), (*out, channels), activation, window, stride, same, pads,
                  weights={"w": w, "b": Weight((channels,), BIAS)},
                  multiplications=math.prod(out) * w.size)
        )  # fmt: skip

    def transposed(self, units: int, size: int, activation: str = "") -> int:
        """Adds a transposed convolution whose windows lie side by side."""
        number, shape = self._source(None)
        out = (shape[0] * size, shape[1] * size, units)
        deviation = math.sqrt(GAINS[activation] / shape[2])
        w = Weight((units, size, size, shape[2]), deviation)
        return self._add(
            Layer("transposed", (number,), out, activation, (size, size), size,
                  weights={"w": w, "b": Weight((units,), BIAS)},
                  multiplications=math.prod(shape[:2]) * w.size)
        )  # fmt: skip

    def pool(
        self, kind: str, size: int | Size, stride: int | None = None, *, same: bool = False
    ) -> int:
        """Adds max_pool or mean_pool, whose windows lie side by side if there is no stride."""
        number, shape = self._source(None)
        window = (size, size) if isinstance(size, int) else size
        step = max(window) if stride is None else stride
        out, pads = _window(shape, window, step, same)
        return self._add(Layer(kind, (number,), (*out, shape[2]), "", window, step, same, pads))

    def upsample(self) -> int:
        """Adds nearest-neighbor upsampling by 2."""
        number, (h, w, channels) = self._source(None)
        return self._add(Layer("upsample", (number,), (2 * h, 2 * w, channels)))

    def mean(self, *, keep: bool = False) -> int:
        """Adds the mean of each channel: (C,), or (1, 1, C) if the axes are kept."""
        number, shape = self._source(None)
        return self._add(Layer("mean", (number,), (1, 1, shape[-1]) if keep else shape[-1:]))

    def squeeze(self, units: int, inner: str = "relu", gate: str = "hard_sigmoid") -> int:
        """Adds squeeze-and-excitation: scales channels by factors computed from their means."""
        number, shape = self._source(None)
        self.mean(keep=True)
        self.conv(units, 1, 1, inner)
        factors = self.conv(shape[2], 1, 1, gate)
        return self._add(Layer("mul", (number, factors), shape))

    def max(self) -> int:
        """Adds the largest value of each channel of a sequence."""
        number, shape = self._source(None)
        return self._add(Layer("max", (number,), shape[-1:]))

    def swap(self) -> int:
        number, (length, width) = self._source(None)
        return self._add(Layer("swap", (number,), (width, length)))

    def half(self, part: int, source: int) -> int:
        """Adds the first or the second half of the channels."""
        *image, channels = self.shape_of(source)
        return self._add(Layer("half", (source,), (*image, channels // 2), part=part))

    def shuffle(self) -> int:
        """Adds the channels of both halves in turn."""
        number, shape = self._source(None)
        return self._add(Layer("shuffle", (number,), shape))

    def flatten(self) -> int:
        number, shape = self._source(None)
        return self._add(Layer("flatten", (number,), (math.prod(shape),)))

    def tokens(self) -> int:
        number, (h, w, channels) = self._source(None)
        return self._add(Layer("tokens", (number,), (h * w, channels)))

    def add(self, a: int, b: int, activation: str = "") -> int:
        return self._add(Layer("add", (a, b), self.shape_of(a), activation))

    def mul(self, a: int, b: int) -> int:
        return self._add(Layer("mul", (a, b), self.shape_of(a)))

    def concat(self, *sources: int) -> int:
        shapes = [self.shape_of(s) for s in sources]
        return self._add(
            Layer("concat", sources, (*shapes[0][:-1], sum(shape[-1] for shape in shapes)))
        )

    def dense(
        self, units: int, activation: str = "", *, source: int | None = None,
        gain: float | None = None,
    ) -> int:  # fmt: skip
        number, shape = self._source(source)
        w = matrix(units, shape[-1], gain=GAINS[activation] if gain is None else gain)
        return self._add(
            Layer("dense", (number,), (*shape[:-1], units), activation,
                  weights={"w": w, "b": Weight((units,), BIAS)},
                  multiplications=math.prod(shape[:-1]) * w.size)
        )  # fmt: skip

    def embedding(self, width: int) -> int:
        number, (length,) = self._source(None)
        w = Weight((self.vocabulary, width), 0.5)
        return self._add(Layer("embedding", (number,), (length, width), weights={"w": w}))

    def offset(self) -> int:
        """Adds a weight of the shape of its source, such as an embedding of positions."""
        number, shape = self._source(None)
        return self._add(Layer("offset", (number,), shape, weights={"w": Weight(shape, 0.1)}))

    def norm(self, groups: int = 0, activation: str = "", *, source: int | None = None) -> int:
        """Adds layer normalization, group normalization or, for C groups, instance normalization.

        Args:
            groups: groups of channels of an image; 0 to normalize each token.
        """
        number, shape = self._source(source)
        weights = {"w": Weight(shape[-1:], 0.1, 1.0), "b": Weight(shape[-1:], BIAS)}
        return self._add(
            Layer("norm", (number,), shape, activation, groups=groups, weights=weights)
        )

    def prelu(self) -> int:
        number, shape = self._source(None)
        return self._add(
            Layer("prelu", (number,), shape, weights={"w": Weight(shape[-1:], 0.05, 0.25)})
        )

    def attention(self, heads: int, *, gain: float = 1.0, causal: bool = False) -> int:
        """Adds multi-head self-attention with its four dense layers."""
        number, (length, width) = self._source(None)
        projected = tuple(self.dense(width, source=number) for _ in range(3))
        self._add(Layer("attention", projected, (length, width), heads=heads, causal=causal,
                        multiplications=2 * length**2 * width))  # fmt: skip
        return self.dense(width, gain=gain)

    def lstm(self, units: int, *, unrolled: bool = False) -> int:
        return self._recurrent("lstm", 4, units, unrolled)

    def gru(self, units: int) -> int:
        """Adds a GRU without a bias of its state's products; TFLite has no operator for it."""
        return self._recurrent("gru", 3, units, True)

    def _recurrent(self, kind: str, gates: int, units: int, unrolled: bool) -> int:
        number, (length, width) = self._source(None)
        w, r = (Weight((gates * units, n), math.sqrt(1 / n)) for n in (width, units))
        return self._add(
            Layer(kind, (number,), (units,), unrolled=unrolled,
                  weights={"w": w, "r": r, "b": Weight((gates * units,), BIAS)},
                  multiplications=length * (w.size + r.size))
        )  # fmt: skip


def _window(
    shape: Sequence[int], size: Size, stride: int, same: bool
) -> tuple[tuple[int, int], Pads]:
    """Returns outputs (height, width), and zeros (top, bottom, left, right)."""
    (h, top, bottom), (w, left, right) = (
        _along(length, taps, stride, same) for length, taps in zip(shape[:2], size, strict=True)
    )
    return (h, w), (top, bottom, left, right)


def _along(length: int, taps: int, stride: int, same: bool) -> tuple[int, int, int]:
    """Returns the number of outputs along an axis, and the zeros before and after."""
    if not same:
        return (length - taps) // stride + 1, 0, 0
    out = -(-length // stride)
    zeros = max((out - 1) * stride + taps - length, 0)
    return out, zeros // 2, zeros - zeros // 2
