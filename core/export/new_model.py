"""New models: small networks with random weights, to train from scratch.

Weights before RELU are drawn as in He et al., *Delving Deep into Rectifiers* (2015): normal, with
variance 2 / fan-in. All others are drawn as in Glorot and Bengio, *Understanding the difficulty of
training deep feedforward neural networks* (2010): uniform, with variance 2 / (fan-in + fan-out).
Recurrent weights are orthogonal (Saxe et al., 2014), the bias of the forget gate is 1 (Jozefowicz
et al., 2015), and all other biases are 0: the defaults of Keras.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import field, fields, replace
from typing import Any

import numpy as np

from odt.core.export.model_builder import FORMATS, ModelBuilder
from odt.core.recipe.option_values import check_whole, check_word
from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.kernels.rows.opdef import Array

SAME = 0  # of the schema's Padding
NONE, RELU, TANH = 0, 1, 4  # of the schema's ActivationFunctionType
GATES = "ifgo"  # of an LSTM, in the order of its operator's inputs
# Name → operator after the last layer, if any.
ACTIVATIONS = {"softmax": "SOFTMAX", "sigmoid": "LOGISTIC", "linear": ""}
POOLED = 8  # height or width up to which a CNN pools by default
FILTERS = (16, 32, 64)  # of the convolutions of a CNN, the last repeated


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the layers; None for the default of the kind of network.

    Attributes:
        hidden: units of the hidden FULLY_CONNECTED layers.
        filters: output channels of the convolutions.
        blocks: number of depthwise-separable convolutions.
        units: units of the LSTM layers.
        unroll: whether LSTM layers have operators for each time step, which all runtimes know,
            instead of one operator.
    """

    hidden: tuple[int, ...] | None = None
    filters: tuple[int, ...] | None = None
    blocks: int | None = None
    units: tuple[int, ...] | None = None
    unroll: bool | None = None

    def __post_init__(self) -> None:
        for name in ("hidden", "filters", "units"):
            for n in getattr(self, name) or ():
                check_whole(name, n, 1)
            if name != "hidden" and getattr(self, name) == ():
                raise OptionError(name, "must have one number or more", "none")
        check_whole("blocks", self.blocks, 1)


@dataclass(frozen=True, slots=True)
class Scaling:
    """Mean and standard deviation of data, with shapes that broadcast to a sample."""

    mean: Array
    std: Array


@dataclass(frozen=True, slots=True)
class NewModel:
    """A description of a new model.

    Attributes:
        kind: one of KINDS.
        input_shape: shape of a sample of the input.
        output_shape: shape of a sample of the output; an autoencoder has that of its input.
        activation: softmax, sigmoid or linear.
        sizes: sizes of the layers.
        inputs: mean and deviation of the inputs, which the first layers normalize; None for no such
            layers.
        outputs: scaling that the last layers apply to linear outputs; None for no such layers.
        seed: random seed of the weights.

    Raises:
        OptionError: for values that do not describe a model.
    """

    kind: str
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    activation: str = "softmax"
    sizes: Sizes = field(default_factory=Sizes)
    inputs: Scaling | None = None
    outputs: Scaling | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_word("kind", self.kind, KINDS)
        check_word("activation", self.activation, ACTIVATIONS)
        check_whole("seed", self.seed, 0)
        for name, shape in (("input_shape", self.input_shape), ("outputs", self.output_shape)):
            if not shape:
                raise OptionError(name, "must have one number or more", "none")
            for n in shape:
                check_whole(name, n, 1)
        kind = KINDS[self.kind]
        if not kind.axes[0] <= len(self.input_shape) <= kind.axes[1]:
            raise OptionError("input_shape", f"must be {kind.takes}", self.input_shape)
        for size in fields(Sizes):
            if getattr(self.sizes, size.name) is not None and size.name not in kind.sizes:
                sizes = " and ".join(f"`{name}=`" for name in kind.sizes)
                rule = f"must be left out for the kind {self.kind}, which has {sizes}"
                raise OptionError(size.name, rule, getattr(self.sizes, size.name))
        if self.activation == "softmax" and self.output_shape[-1] == 1:
            raise OptionError(
                "outputs",
                "must be at least 2 with softmax, whose values add up to 1",
                1,
                "For a yes/no output give `activation=` sigmoid, for regression linear",
            )


def build_model(new: NewModel, file_format: str) -> bytes:
    """Makes the file of a new model, with a batch of 1.

    Args:
        new: the model.
        file_format: circle or tflite.

    Raises:
        OptionError: for another format, or numbers of filters and blocks that contradict.
    """
    check_word("file_format", file_format, FORMATS)
    net = _Network(file_format, new.seed)
    first = x = net.model.add_input((1, *new.input_shape), name="input")
    if new.inputs is not None:
        x = net.elementwise("SUB", x, new.inputs.mean, "normalization/mean")
        x = net.elementwise("MUL", x, 1 / new.inputs.std, "normalization/scale")
    x = KINDS[new.kind].build(net, x, new.sizes)
    x = net.dense(x, math.prod(new.output_shape), NONE, "output")
    x = net.reshape(x, new.output_shape)
    if ACTIVATIONS[new.activation]:
        options: dict[str, Any] = {"beta": 1.0} if new.activation == "softmax" else {}
        shape = (1, *new.output_shape)
        x = net.model.add_operator(ACTIVATIONS[new.activation], [x], shape, **options)
    elif new.outputs is not None:
        x = net.elementwise("MUL", x, new.outputs.std, "normalization/output_scale")
        x = net.elementwise("ADD", x, new.outputs.mean, "normalization/output_mean")
    net.model.add_signature("serving_default", {"x": first}, {"y": x})
    return net.model.build(x)


class _Network:
    """Adds layers to a model; a tensor's shape begins with the batch of 1."""

    def __init__(self, file_format: str, seed: int) -> None:
        self.file_format = file_format
        self.model = ModelBuilder(file_format, seed)
        self.rng = self.model.rng

    def shape(self, x: int) -> tuple[int, ...]:
        """Returns the shape of a sample of a tensor."""
        return tuple(self.model.graph.tensors[x].shape[1:])

    def reshape(self, x: int, shape: Sequence[int]) -> int:
        """Adds a RESHAPE of samples, unless they have the shape."""
        if self.shape(x) == tuple(shape):
            return x
        target = [-1, *shape]
        constant = self.model.add_constant(target, f"reshape_{x}/shape")
        return self.model.add_operator("RESHAPE", (x, constant), (1, *shape), new_shape=target)

    def flatten(self, x: int) -> int:
        return self.reshape(x, (math.prod(self.shape(x)),))

    def elementwise(self, op: str, x: int, values: Array, name: str) -> int:
        """Adds an operator on x and a constant."""
        constant = self.model.add_constant(np.asarray(values, np.float32), name)
        return self.model.add_operator(op, (x, constant), (1, *self.shape(x)))

    def dense(self, x: int, units: int, activation: int = RELU, name: str = "dense") -> int:
        """Adds a FULLY_CONNECTED."""
        (width,) = self.shape(x)
        draw = self._he if activation == RELU else self._glorot
        w, b = self._layer(name, draw((units, width), width, units), units)
        shape = (1, units)
        return self.model.add_operator(
            "FULLY_CONNECTED", (x, w, b), shape, fused_activation_function=activation
        )

    def convolution(self, x: int, filters: int, kernel: int, stride: int = 1) -> int:
        """Adds a CONV_2D with RELU."""
        height, width, channels = self.shape(x)
        fan_in = kernel * kernel * channels
        values = self._he((filters, kernel, kernel, channels), fan_in)
        w, b = self._layer("conv", values, filters)
        shape = (1, -(-height // stride), -(-width // stride), filters)
        options: dict[str, Any] = {"padding": SAME, "stride_w": stride, "stride_h": stride}
        return self.model.add_operator(
            "CONV_2D", (x, w, b), shape, fused_activation_function=RELU, **options
        )

    def depthwise(self, x: int) -> int:
        """Adds a DEPTHWISE_CONV_2D of 3×3 with RELU."""
        shape = self.shape(x)
        w, b = self._layer("depthwise", self._he((1, 3, 3, shape[-1]), 9), shape[-1])
        options: dict[str, Any] = {
            "padding": SAME,
            "stride_w": 1,
            "stride_h": 1,
            "depth_multiplier": 1,
        }
        return self.model.add_operator(
            "DEPTHWISE_CONV_2D", (x, w, b), (1, *shape), fused_activation_function=RELU, **options
        )

    def max_pool(self, x: int) -> int:
        """Adds a MAX_POOL_2D of 2×2."""
        height, width, channels = self.shape(x)
        return self.model.add_operator(
            "MAX_POOL_2D",
            [x],
            (1, -(-height // 2), -(-width // 2), channels),
            padding=SAME,
            stride_w=2,
            stride_h=2,
            filter_width=2,
            filter_height=2,
        )

    def mean(self, x: int) -> int:
        """Adds a MEAN over height and width."""
        axes = self.model.add_constant([1, 2], "mean/axes")
        return self.model.add_operator("MEAN", (x, axes), (1, self.shape(x)[-1]))

    def lstm(self, x: int, units: int) -> int:
        """Adds a UNIDIRECTIONAL_SEQUENCE_LSTM."""
        steps, width = self.shape(x)
        name = self._name("lstm")
        constant = self.model.add_constant
        inputs = [
            constant(self._glorot((units, width), width, 4 * units), f"{name}/w{g}") for g in GATES
        ]
        inputs += [constant(self._orthogonal(units), f"{name}/r{g}") for g in GATES]
        inputs += [-1] * 3  # peepholes
        for g in GATES:
            bias = np.full(units, 1.0 if g == "f" else 0.0, np.float32)
            inputs.append(constant(bias, f"{name}/b{g}"))
        inputs += [-1, -1]  # projection
        inputs += [self._initial_state(units) for _ in range(2)]  # h and c
        inputs += [-1] * 4  # layer normalization
        shape = (1, steps, units)
        return self.model.add_operator(
            "UNIDIRECTIONAL_SEQUENCE_LSTM", (x, *inputs), shape, fused_activation_function=TANH
        )

    def steps(self, x: int) -> list[int]:
        """Adds an UNPACK of the time axis; returns its outputs."""
        count, width = self.shape(x)
        shapes = [(1, width)] * count
        first = self.model.add_operator("UNPACK", (x,), *shapes, num=count, axis=1)
        return list(range(first, first + count))

    def unrolled_lstm(self, steps: Sequence[int], units: int) -> list[int]:
        """Adds an LSTM of FULLY_CONNECTED, SPLIT, LOGISTIC, TANH, MUL and ADD for each time step.

        Its initial state is zero, so that the first step has no operators on it.

        Args:
            steps: the input of each time step.
            units: units.

        Returns:
            The output of each time step.
        """
        (width,) = self.shape(steps[0])
        name, model = self._name("lstm"), self.model
        parts = [self._glorot((units, width), width, 4 * units) for _ in GATES]
        w = model.add_constant(np.concatenate(parts), f"{name}/w")
        recurrent = np.concatenate([self._orthogonal(units) for _ in GATES])
        r = model.add_constant(recurrent, f"{name}/r") if len(steps) > 1 else -1
        bias = np.zeros(4 * units, np.float32)
        bias[units : 2 * units] = 1  # of the forget gate
        b = model.add_constant(bias, f"{name}/b")
        axis, shape = model.add_constant(1, f"{name}/axis"), (1, units)
        hidden = cell = -1  # zero before the first step
        outputs: list[int] = []
        for x in steps:
            gates = model.add_operator("FULLY_CONNECTED", (x, w, b), (1, 4 * units))
            if outputs:
                last = model.add_operator("FULLY_CONNECTED", (hidden, r, -1), (1, 4 * units))
                gates = model.add_operator("ADD", (gates, last), (1, 4 * units))
            first = model.add_operator("SPLIT", (axis, gates), *[shape] * 4, num_splits=4)
            i, f, o = (model.add_operator("LOGISTIC", (first + k,), shape) for k in (0, 1, 3))
            g = model.add_operator("TANH", (first + 2,), shape)
            new = model.add_operator("MUL", (i, g), shape)
            if outputs:
                product = model.add_operator("MUL", (f, cell), shape)
                new = model.add_operator("ADD", (new, product), shape)
            cell = new
            hidden = model.add_operator(
                "MUL", (o, model.add_operator("TANH", (cell,), shape)), shape
            )
            outputs.append(hidden)
        return outputs

    def _initial_state(self, units: int) -> int:
        """Adds a state of zeros: LiteRT demands a variable, and onert 0.1.0 crashes on one."""
        if self.file_format == "tflite":
            return self.model.add_state((1, units))
        return self.model.add_constant(np.zeros((1, units), np.float32), "initial state")

    def last_step(self, x: int) -> int:
        """Adds a STRIDED_SLICE that leaves the last entry of the time axis."""
        steps, width = self.shape(x)
        begins, ends, strides = [0, steps - 1, 0], [1, steps, width], [1, 1, 1]
        bounds = [
            self.model.add_constant(values, f"last_{x}/{k}")
            for k, values in enumerate((begins, ends, strides))
        ]
        others, time = 0b101, 0b010  # masks of axes: all of batch and features, one step
        masks: dict[str, Any] = {"begin_mask": others, "end_mask": others, "shrink_axis_mask": time}
        return self.model.add_operator("STRIDED_SLICE", (x, *bounds), (1, width), **masks)

    def _name(self, layer: str) -> str:
        return f"{layer}_{len(self.model.graph.operators)}"

    def _layer(self, layer: str, weights: Array, units: int) -> tuple[int, int]:
        """Adds weights, and a bias of zeros."""
        name = layer if layer == "output" else self._name(layer)
        bias = np.zeros(units, np.float32)
        w = self.model.add_constant(weights, f"{name}/w")
        return w, self.model.add_constant(bias, f"{name}/b")

    def _he(self, shape: Sequence[int], fan_in: int, fan_out: int = 0) -> Array:
        """Draws weights before RELU; fan_out is not read, as other draws need it."""
        return self.rng.normal(0, math.sqrt(2 / fan_in), shape).astype(np.float32)

    def _glorot(self, shape: Sequence[int], fan_in: int, fan_out: int) -> Array:
        limit = math.sqrt(6 / (fan_in + fan_out))
        return self.rng.uniform(-limit, limit, shape).astype(np.float32)

    def _orthogonal(self, n: int) -> Array:
        q, r = np.linalg.qr(self.rng.normal(size=(n, n)))
        return (q * np.sign(np.diag(r))).astype(np.float32)


def _mlp(net: _Network, x: int, sizes: Sizes) -> int:
    """Adds FULLY_CONNECTED layers with RELU."""
    x = net.flatten(x)
    for units in (128,) if sizes.hidden is None else sizes.hidden:
        x = net.dense(x, units)
    return x


def _cnn(net: _Network, x: int, sizes: Sizes) -> int:
    """Adds convolutions with pooling, and FULLY_CONNECTED layers."""
    x = _as_picture(net, x)
    filters = sizes.filters
    if filters is None:
        levels = math.ceil(math.log2(max(1, min(net.shape(x)[:2]) / POOLED)))
        filters = (*FILTERS, *[FILTERS[-1]] * levels)[: max(2, levels)]
    for n in filters:
        x = net.max_pool(net.convolution(x, n, kernel=3))
    return _mlp(net, x, replace(sizes, hidden=(64,) if sizes.hidden is None else sizes.hidden))


def _ds_cnn(net: _Network, x: int, sizes: Sizes) -> int:
    """Adds a convolution and depthwise-separable ones, and takes the mean."""
    filters = sizes.filters or (64,)
    blocks = sizes.blocks or (4 if len(filters) == 1 else len(filters) - 1)
    if len(filters) not in (1, blocks + 1):
        rule = f"must have one number, or {blocks + 1}: of the first layer and of each block"
        raise OptionError("filters", rule, filters)
    first, *others = filters * (blocks + 1) if len(filters) == 1 else filters
    x = net.convolution(_as_picture(net, x), first, kernel=3, stride=2)
    for n in others:
        x = net.convolution(net.depthwise(x), n, kernel=1)
    return net.mean(x)


def _autoencoder(net: _Network, x: int, sizes: Sizes) -> int:
    """Adds layers up to the narrowest one, and as many back."""
    encoder = (64, 16) if sizes.hidden is None else sizes.hidden
    return _mlp(net, x, replace(sizes, hidden=(*encoder, *encoder[-2::-1])))


def _lstm(net: _Network, x: int, sizes: Sizes) -> int:
    """Adds LSTM layers, and FULLY_CONNECTED layers on their last step."""
    shape = net.shape(x)
    x = net.reshape(x, (shape[0], math.prod(shape[1:])))
    layers = sizes.units or (32,)
    if sizes.unroll:
        steps = net.steps(x)
        for units in layers:
            steps = net.unrolled_lstm(steps, units)
        last = steps[-1]
    else:
        for units in layers:
            x = net.lstm(x, units)
        last = net.last_step(x)
    return _mlp(net, last, replace(sizes, hidden=sizes.hidden or ()))


def _as_picture(net: _Network, x: int) -> int:
    """Adds an axis of one channel where there is none."""
    shape = net.shape(x)
    return net.reshape(x, shape if len(shape) == 3 else (*shape, 1))


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of network.

    Attributes:
        build: adds its layers up to the last, which every network has.
        sizes: the sizes that it has, fields of Sizes.
        axes: least and largest number of axes of its input, without the batch.
        takes: the rule of its input in words.
    """

    build: Callable[[_Network, int, Sizes], int]
    sizes: tuple[str, ...]
    axes: tuple[int, int]
    takes: str


_PICTURE = "height, width and channels such as 28,28,1, or height and width"
KINDS = {
    "mlp": Kind(_mlp, ("hidden",), (1, 9), "any shape"),
    "cnn": Kind(_cnn, ("filters", "hidden"), (2, 3), _PICTURE),
    "ds-cnn": Kind(_ds_cnn, ("filters", "blocks"), (2, 3), _PICTURE),
    "autoencoder": Kind(_autoencoder, ("hidden",), (1, 9), "any shape"),
    "lstm": Kind(
        _lstm, ("units", "hidden", "unroll"), (1, 3), "time steps and features such as 100,6"
    ),
}
