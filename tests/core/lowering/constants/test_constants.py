"""What trains: weights, and no constant that a converter or an author holds constant.

Each network says by hand which of its constants are weights. Real weights at the same places, such
as a bias of zeros in a new network, are among them.
"""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from support.networks import Net

from odt.core.lowering.constants.hold import hold_constants
from odt.core.lowering.constants.signals import (
    are_quadratures,
    is_filter_bank,
    is_mask,
    is_sinusoidal,
    is_split_quadrature,
)
from odt.core.model.graph import Graph
from odt.core.planning.trainable import held_constants, trainable_tensors
from odt.kernels.rows.opdef import Array

Built = tuple[Net, int, set[int]]  # a network, its output, and its weights
Make = Callable[[], Built]
T, F, U = 5, 3, 4  # time steps, features, units


def product(net: Net, x: int, units: int, bias: bool = True) -> tuple[int, set[int]]:
    """A fully connected layer, and its weights."""
    shape = net.tensors[x].spec.shape
    w = net.weight(units, shape[-1])
    b = [net.weight(units)] if bias else []
    y = net.add("FULLY_CONNECTED", (x, w, *b), (*shape[:-1], units), keep_num_dims=len(shape) > 2)
    return y, {w, *b}


def conv(net: Net, x: int, bias: Array | None = None, **options: object) -> tuple[int, int, int]:
    """A convolution of 3 × 3 with U filters: its result, its filter and its bias."""
    n, h, width, channels = net.tensors[x].spec.shape
    w = net.weight(U, 3, 3, channels)
    b = net.weight(U) if bias is None else net.constant(bias)
    shape, strides = (n, h, width, U), {"stride_h": 1, "stride_w": 1, "padding": 0}
    return net.add("CONV_2D", (x, w, b), shape, **strides, **options), w, b


def unrolled(cell: str, first: Array) -> Built:
    """Two steps of a recurrent layer that begins with a constant."""
    net = Net()
    xs = [net.input(1, F), net.input(1, F)]
    h = start = net.constant(first)
    w, r, b = net.weight(4 * U, F), net.weight(4 * U, U), net.weight(4 * U)
    c = h
    for x in xs:
        z = net.add("FULLY_CONNECTED", (x, w, b), (1, 4 * U))
        z = net.add("ADD", (z, net.add("FULLY_CONNECTED", (h, r, -1), (1, 4 * U))), (1, 4 * U))
        parts = [
            net.add("SLICE", (z, net.constant([0, k * U], np.int32), size(net, 1, U)), (1, U))
            for k in range(4)
        ]
        if cell == "rnn":
            h = net.add("TANH", (parts[0],), (1, U))
            continue
        i, f, o = (net.add("LOGISTIC", (part,), (1, U)) for part in parts[:3])
        kept = net.add("MUL", (f, c), (1, U))
        new = net.add("MUL", (i, net.add("TANH", (parts[3],), (1, U))), (1, U))
        c = net.add("ADD", (kept, new), (1, U))
        h = net.add("MUL", (o, net.add("TANH", (c,), (1, U))), (1, U))
    y, more = product(net, h, 2)
    return net, y, {w, r, b, *more} | ({start} if np.ptp(first) else set())


def size(net: Net, *shape: int) -> int:
    return net.constant(shape, np.int32)


def cell_state() -> Built:
    """A first cell state of its own, which a gate alone reads."""
    net = Net()
    x = net.input(1, F)
    z, weights = product(net, x, U)
    gate = net.add("LOGISTIC", (z,), (1, U))
    kept = net.add("MUL", (gate, net.constant(np.zeros((1, U)))), (1, U))
    return net, net.add("ADD", (kept, z), (1, U)), weights


def gate_of_zeros(vector: bool) -> Built:
    """A scale that starts at 0, of a layer of its own: a weight."""
    net = Net()
    x = net.input(1, 6, 6, 3)
    y, w, b = conv(net, x)
    scale = net.constant(np.zeros(U if vector else (1, 1, U)))
    z = net.add("MUL", (y, scale), (1, 6, 6, U))
    return net, net.add("ADD", (y, z), (1, 6, 6, U)), {w, b, scale}


def joined_state() -> Built:
    """The cell of TensorFlow 1, which joins input and state."""
    net = Net()
    x = net.input(1, F)
    zeros = net.constant(np.zeros((1, U)))
    y, weights = product(net, net.add("CONCATENATION", (x, zeros), (1, F + U), axis=1), U)
    return net, y, weights


def shortcut() -> Built:
    """Channels of zeros, as the shortcuts of ResNets for CIFAR have them."""
    net = Net()
    y, w, b = conv(net, net.input(1, 6, 6, 3))
    zeros = net.constant(np.zeros((1, 6, 6, U)))
    y = net.add("CONCATENATION", (y, zeros), (1, 6, 6, 2 * U), axis=3)
    z, v, c = conv(net, y)
    return net, z, {w, b, v, c}


def class_token() -> Built:
    net = Net()
    y, weights = product(net, net.input(1, T, F), U)
    token = net.constant(np.zeros((1, 1, U)))
    y = net.add("CONCATENATION", (token, y), (1, T + 1, U), axis=1)
    table = net.weight(1, T + 1, U)
    y, more = product(net, net.add("ADD", (y, table), (1, T + 1, U)), U)
    return net, y, {token, table, *weights, *more}


def collected() -> Built:
    """An array whose rows are replaced."""
    net = Net()
    y, weights = product(net, net.input(1, F), U)
    row = net.add("RESHAPE", (y, size(net, 1, 1, U)), (1, 1, U), new_shape=(1, 1, U))
    array = net.constant(np.zeros((1, 2, U)))
    start = net.constant([0, 1, 0], np.int32)
    return net, net.add("DYNAMIC_UPDATE_SLICE", (array, row, start), (1, 2, U)), weights


def low_rank() -> Built:
    """A filter that is a product of two matrices, one of which starts at 0."""
    net = Net()
    x = net.input(1, F)
    b, a = net.constant(np.zeros((U, 2))), net.weight(2, F)
    w = net.weight(U, F)
    delta = net.add("BATCH_MATMUL", (b, a), (U, F))
    y = net.add("FULLY_CONNECTED", (x, net.add("ADD", (w, delta), (U, F)), -1), (1, U))
    return net, y, {a, b, w}


def bias_of_zeros(kind: str) -> Built:
    """Biases of zeros in a trained network; `kind` says whether they are real."""
    net = Net()
    x, zeros = net.input(1, 6, 6, 3), np.zeros(U)
    if kind == "new network":  # all biases are 0
        y, w, b = conv(net, x, zeros)
        z, v, c = conv(net, y, zeros, fused_activation_function=1)
        return net, z, {w, b, v, c}
    if kind == "of one layer":
        y, w, b = conv(net, x, zeros, fused_activation_function=1)
        z, v, c = conv(net, y)
        return net, z, {w, b, v, c}
    if kind == "depthwise":
        w = net.weight(1, 3, 3, 3)
        options = {"stride_h": 1, "stride_w": 1, "padding": 0, "depth_multiplier": 1}
        inputs = (x, w, net.constant(np.zeros(3)))
        y = net.add("DEPTHWISE_CONV_2D", inputs, (1, 6, 6, 3), **options)
        z, v, c = conv(net, y)
        return net, z, {w, v, c}
    y, w, b = conv(net, x, zeros, fused_activation_function=1)
    v = net.weight(U, 3, 3, U)
    strides = {"stride_h": 1, "stride_w": 1, "padding": 0}
    y = net.add("CONV_2D", (y, v, b), (1, 6, 6, U), **strides, fused_activation_function=1)
    z, u, c = conv(net, y)
    return net, z, {w, v, u, c}


def preprocessing(*steps: tuple[str, Array]) -> Built:
    net = Net()
    y = net.input(1, 6)
    for op, values in steps:
        y = net.add(op, (y, net.constant(values)), (1, 6))
    y, weights = product(net, y, U)
    return net, y, weights


def positions_of_inputs() -> Built:
    """Learned positions that are added to vectors, which another model has computed."""
    net = Net()
    table = net.weight(1, T, F)
    y, weights = product(net, net.add("ADD", (net.input(1, T, F), table), (1, T, F)), U)
    return net, y, {table, *weights}


def scale_alone() -> Built:
    """A model that consists of a scale and an offset."""
    net = Net()
    scale, shift = net.constant(np.arange(1.0, 7)), net.weight(6)
    y = net.add("MUL", (net.input(1, 6), scale), (1, 6))
    return net, net.add("ADD", (y, shift), (1, 6)), {scale, shift}


def norm_of_inputs() -> Built:
    """A layer normalization of the inputs: its scale and shift are weights."""
    net = Net()
    x = net.input(1, 6)
    mean = net.add("MEAN", (x, net.constant([1], np.int32)), (1, 1), keep_dims=True)
    d = net.add("SUB", (x, mean), (1, 6))
    square = net.add("MUL", (d, d), (1, 6))
    var = net.add("MEAN", (square, net.constant([1], np.int32)), (1, 1), keep_dims=True)
    root = net.add("RSQRT", (net.add("ADD", (var, net.constant([1e-5])), (1, 1)),), (1, 1))
    gamma, beta = net.constant(np.linspace(0.5, 1.5, 6)), net.weight(6)
    y = net.add("MUL", (net.add("MUL", (d, root), (1, 6)), gamma), (1, 6))
    y, weights = product(net, net.add("ADD", (y, beta), (1, 6)), U)
    return net, y, {gamma, beta, *weights}


def angles(bins: int, points: int) -> Array:
    return 2 * np.pi * np.outer(np.arange(bins), np.arange(points)) / points


def mel(bands: int, bins: int) -> Array:
    """Triangles over the bins, one for each band."""
    centers = np.linspace(1, bins - 2, bands)[:, None]
    return np.maximum(0, 1 - abs(np.arange(bins) - centers) / 2)


def spectrogram(window: bool, rounded: bool = False) -> Built:
    """Frames, DFT as two products of matrices, mel filters, logarithm, DCT, and a layer."""
    net = Net()
    frames = net.input(1, 3, 32)
    hann = np.hanning(32) if window else np.ones(32)
    transform = [np.cos(angles(17, 32)) * hann, np.sin(angles(17, 32)) * hann]
    if rounded:
        transform = [np.round(m * 64) / 64 for m in transform]
    parts = []
    for values in transform:
        y = net.add(
            "FULLY_CONNECTED", (frames, net.constant(values), -1), (1, 3, 17), keep_num_dims=True
        )
        parts.append(net.add("SQUARE", (y,), (1, 3, 17)))
    power = net.add("ADD", parts, (1, 3, 17))
    bank, least = net.constant(mel(8, 17)), net.constant(np.full(8, 1e-3))
    y = net.add("FULLY_CONNECTED", (power, bank, least), (1, 3, 8), keep_num_dims=True)
    y = net.add("LOG", (y,), (1, 3, 8))
    dct = net.constant(np.cos(np.pi * np.outer(np.arange(6), np.arange(8) + 0.5) / 8))
    y = net.add("FULLY_CONNECTED", (y, dct, -1), (1, 3, 6), keep_num_dims=True)
    y, weights = product(net, y, U)
    return net, y, weights


def logarithm_of_learned_features() -> Built:
    """A trained layer whose power is taken, as in networks for EEG."""
    net = Net()
    y, weights = product(net, net.input(1, 3, 32), 17, bias=False)
    y = net.add("SQUARE", (y,), (1, 3, 17))
    y, more = product(net, y, 8)
    y, last = product(net, net.add("LOG", (y,), (1, 3, 8)), U)
    return net, y, weights | more | last


def fourier() -> Built:
    """A window before RFFT2D, and a trained layer after the magnitude."""
    net = Net()
    x = net.input(1, 3, 1, 32)
    x = net.add("MUL", (x, net.constant(np.hanning(32))), (1, 3, 1, 32))
    y = net.add("RFFT2D", (x, net.constant([1, 32], np.int32)), (1, 3, 1, 17))
    y, weights = product(net, net.add("COMPLEX_ABS", (y,), (1, 3, 1, 17)), U)
    return net, y, weights


def positions(values: Array, trains: bool) -> Built:
    net = Net()
    y, weights = product(net, net.input(1, T, F), values.shape[-1])
    table = net.constant(values)
    y = net.add("ADD", (y, table), (1, T, values.shape[-1]))
    y, more = product(net, y, U)
    return net, y, weights | more | ({table} if trains else set())


def rotary() -> Built:
    net = Net()
    y, weights = product(net, net.input(1, T, F), 4)
    angle = np.arange(T)[:, None] / 10.0 ** np.array([0, 1, 0, 1])
    cos, sin = net.constant(np.cos(angle)), net.constant(np.sin(angle)[None])
    a = net.add("MUL", (y, cos), (1, T, 4))
    b = net.add("MUL", (net.add("NEG", (y,), (1, T, 4)), sin), (1, T, 4))
    y, more = product(net, net.add("ADD", (a, b), (1, T, 4)), U)
    return net, y, weights | more


def detector(squashed: bool, later: bool = False) -> Built:
    """The head of a detector: a grid is added to x and y, anchors scale width and height."""
    net = Net()
    y, w, b = conv(net, net.input(1, 4, 4, 3))
    y = net.add("LOGISTIC", (y,), (1, 4, 4, U)) if squashed else y
    halves = [
        net.add(
            "STRIDED_SLICE",
            (
                y,
                net.constant([0, 0, 0, k], np.int32),
                net.constant([1, 4, 4, k + 2], np.int32),
                net.constant([1, 1, 1, 1], np.int32),
            ),
            (1, 4, 4, 2),
        )
        for k in (0, 2)
    ]
    grid = np.stack(np.meshgrid(np.arange(4.0), np.arange(4.0)), -1)[None]
    cells = net.constant(grid)
    xy = net.add("ADD", (halves[0], cells), (1, 4, 4, 2))
    anchors = net.constant([1.5, 2.5])
    wh = net.add(
        "MUL", (net.add("MUL", (halves[1], halves[1]), (1, 4, 4, 2)), anchors), (1, 4, 4, 2)
    )
    y = net.add("CONCATENATION", (xy, wh), (1, 4, 4, 4), axis=3)
    if later:
        z, v, c = conv(net, y)
        return net, z, {w, b, v, c, anchors, cells}
    return net, y, {w, b} if squashed else {w, b, anchors}


def distances() -> Built:
    """A detector without anchors: distances are means over 4 bins, then come points and strides."""
    net = Net()
    y, weights = product(net, net.input(1, T, F), 16)
    y = net.add("RESHAPE", (y, size(net, 1, T, 4, 4)), (1, T, 4, 4), new_shape=(1, T, 4, 4))
    y = net.add("SOFTMAX", (y,), (1, T, 4, 4), beta=1.0)
    bins, zero = net.constant(np.arange(4.0).reshape(1, 1, 1, 4)), net.constant([0.0])
    strides = {"stride_h": 1, "stride_w": 1, "padding": 0}
    y = net.add("CONV_2D", (y, bins, zero), (1, T, 4, 1), **strides)
    y = net.add("RESHAPE", (y, size(net, 1, T, 4)), (1, T, 4), new_shape=(1, T, 4))
    halves = [
        net.add("SLICE", (y, net.constant([0, 0, k], np.int32), size(net, 1, T, 2)), (1, T, 2))
        for k in (0, 2)
    ]
    points = net.constant(np.arange(2.0 * T).reshape(1, T, 2))
    low = net.add("SUB", (points, halves[0]), (1, T, 2))
    size_of = net.add("ADD", (halves[0], halves[1]), (1, T, 2))
    y = net.add("CONCATENATION", (low, size_of), (1, T, 4), axis=2)
    return net, net.add("MUL", (y, net.constant(np.full((1, T, 1), 8.0))), (1, T, 4)), weights


def distances_of_litert_torch() -> Built:
    """As litert-torch writes them: exponentials over their sum, and points joined from vectors."""
    net, shape = Net(), (1, T, 4, 4)
    y, weights = product(net, net.input(1, T, F), 16)
    y = net.add("RESHAPE", (y, size(net, *shape)), shape, new_shape=shape)
    y = net.add("EXP", (y,), shape)
    last = net.constant([3], np.int32)
    y = net.add("DIV", (y, net.add("SUM", (y, last), (1, T, 4, 1), keep_dims=True)), shape)
    y = net.add("MUL", (y, net.constant(np.arange(4.0))), shape)
    y = net.add("SUM", (y, last), (1, T, 4), keep_dims=False)
    columns = [net.constant((np.arange(T) + k).reshape(1, T, 1)) for k in (0.0, 0.5)]
    points = net.add("CONCATENATION", (*columns, *columns), (1, T, 4), axis=2)
    return net, net.add("SUB", (points, y), (1, T, 4)), weights


def spectrogram_by_convolution() -> Built:
    """A short-time Fourier transform whose filters are cosines, then sines, under a window."""
    net = Net()
    x = net.input(1, 128, 1, 1)
    filters = np.concatenate([f(angles(17, 32)) for f in (np.cos, np.sin)]) * np.hanning(32)
    strides = {"stride_h": 16, "stride_w": 1, "padding": 1}
    inputs = (x, net.constant(filters.reshape(34, 32, 1, 1)), net.constant(np.zeros(34)))
    y = net.add("SQUARE", (net.add("CONV_2D", inputs, (1, 7, 1, 34), **strides),), (1, 7, 1, 34))
    y, weights = product(net, y, U)
    return net, y, weights


def features(count: int) -> Built:
    """Columns of a table, each with its own mean and deviation, and a layer."""
    net = Net()
    columns = []
    for k in range(count):
        x = net.add("SUB", (net.input(1, 1), net.constant([[0.5 + k]])), (1, 1))
        columns.append(net.add("DIV", (x, net.constant([[2.0 + k]])), (1, 1)))
    y, weights = product(net, net.add("CONCATENATION", columns, (1, count), axis=1), U)
    return net, y, weights


def norm_behind_tanh() -> Built:
    """A layer normalization at the end, of squashed values: its scale and shift are weights."""
    net = Net()
    y, weights = product(net, net.input(1, T, F), U)
    y, wide, axis = net.add("TANH", (y,), (1, T, U)), (1, T, U), net.constant([2], np.int32)
    d = net.add("SUB", (y, net.add("MEAN", (y, axis), (1, T, 1), keep_dims=True)), wide)
    square = net.add("MUL", (d, d), wide)
    var = net.add("MEAN", (square, axis), (1, T, 1), keep_dims=True)
    root = net.add("RSQRT", (net.add("ADD", (var, net.constant([1e-5])), (1, T, 1)),), (1, T, 1))
    gamma, beta = net.weight(T, U), net.weight(T, U)
    y = net.add("MUL", (net.add("MUL", (d, root), wide), gamma), wide)
    return net, net.add("ADD", (y, beta), wide), {gamma, beta, *weights}


def output_scale() -> Built:
    """A scale and a shift for each channel behind the last layer: undecided, so they train."""
    net = Net()
    y, weights = product(net, net.input(1, F), U)
    y = net.add("TANH", (y,), (1, U))
    scale, shift = net.weight(U), net.weight(U)
    y = net.add("ADD", (net.add("MUL", (y, scale), (1, U)), shift), (1, U))
    return net, y, {scale, shift, *weights}


def pruned() -> Built:
    """A matrix that is multiplied with a mask."""
    net = Net()
    w = net.weight(U, F)
    mask = net.constant(np.arange(U * F).reshape(U, F) % 2)
    masked = net.add("MUL", (w, mask), (U, F))
    return net, net.add("FULLY_CONNECTED", (net.input(1, F), masked, -1), (1, U)), {w}


def fill() -> Built:
    """A number that takes the place of hidden values."""
    net = Net()
    x = net.input(1, F)
    y, weights = product(net, x, U)
    hidden = net.constant(np.full((1, U), -5.0))
    condition = net.add("LESS", (y, net.constant(np.zeros(()))), (1, U))
    return net, net.add("SELECT_V2", (condition, hidden, y), (1, U)), weights


def attention(power: float, of_scores: bool = False) -> Built:
    """Scores of queries and keys of U units, with a factor of one value that has an axis."""
    net = Net()
    x = net.input(1, T, F)
    (q, w), (k, more) = (product(net, x, U) for _ in range(2))
    factor = net.constant([U**power])
    operands = (q, k) if of_scores else [net.add("MUL", (a, factor), (1, T, U)) for a in (q, k)]
    y = net.add("BATCH_MATMUL", tuple(operands), (1, T, T), adj_y=True)
    if of_scores:
        y = net.add("DIV" if power > 0 else "MUL", (y, factor), (1, T, T))
    is_learned = power not in (0.5, -0.25, -0.5)
    return (
        net,
        net.add("SOFTMAX", (y,), (1, T, T)),
        {*w, *more} | ({factor} if is_learned else set()),
    )


NETWORKS: dict[str, Make] = {
    "first state of an RNN": lambda: unrolled("rnn", np.zeros((1, U))),
    "first state of an LSTM": lambda: unrolled("lstm", np.zeros((1, U))),
    "learned first state": lambda: unrolled("lstm", np.linspace(-1, 1, U)[None]),
    "first cell state": cell_state,
    "scale of zeros": lambda: gate_of_zeros(vector=True),
    "scale of zeros with axes": lambda: gate_of_zeros(vector=False),
    "state joined to an input": joined_state,
    "channels of zeros": shortcut,
    "class token": class_token,
    "array of results": collected,
    "matrix of zeros in a filter": low_rank,
    "zero bias, new network": lambda: bias_of_zeros("new network"),
    "zero bias, of one layer": lambda: bias_of_zeros("of one layer"),
    "zero bias, depthwise": lambda: bias_of_zeros("depthwise"),
    "zero bias, of two layers": lambda: bias_of_zeros("of two layers"),
    "mean and factor": lambda: preprocessing(("SUB", np.arange(6.0)), ("MUL", np.arange(1.0, 7))),
    "mean and deviation": lambda: preprocessing(
        ("SUB", np.arange(6.0)[None]), ("DIV", np.arange(1.0, 7)[None])
    ),
    "factor and offset": lambda: preprocessing(("MUL", np.full(6, 2.0)), ("ADD", np.arange(6.0))),
    "positions added to inputs": positions_of_inputs,
    "scale and offset alone": scale_alone,
    "norm of inputs": norm_of_inputs,
    "spectrogram": lambda: spectrogram(window=False),
    "spectrogram, windows": lambda: spectrogram(window=True),
    "spectrogram, rounded": lambda: spectrogram(window=True, rounded=True),
    "logarithm of learned features": logarithm_of_learned_features,
    "RFFT2D": fourier,
    "table of sinusoids": lambda: positions(
        np.concatenate([f(np.arange(T)[:, None] / [1, 10]) for f in (np.sin, np.cos)], 1), False
    ),
    "table of positions": lambda: positions(Net(seed=3).rng.normal(size=(T, 4)), True),
    "new table of positions": lambda: positions(np.zeros((T, 4)), True),
    "rotary tables": rotary,
    "detector": lambda: detector(squashed=True),
    "detector without squashing": lambda: detector(squashed=False),
    "scale behind the last layer": output_scale,
    "distances of a detector": distances,
    "distances as litert-torch writes them": distances_of_litert_torch,
    "spectrogram by convolution": spectrogram_by_convolution,
    "columns with their own mean": lambda: features(3),
    "norm behind TANH": norm_behind_tanh,
    "pruned matrix": pruned,
    "value that replaces others": fill,
    "scale of queries and keys": lambda: attention(-0.25),
    "scale of scores": lambda: attention(-0.5, of_scores=True),
    "divisor of scores": lambda: attention(0.5, of_scores=True),
    "temperature of scores": lambda: attention(0.4, of_scores=True),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_train_and_constants_of_formulas_do_not(name: str) -> None:
    net, y, weights = NETWORKS[name]()
    graph = hold_constants(net.graph(y))
    assert set(trainable_tensors(graph, range(len(graph.nodes)))) == weights
    floats = {i for i, t in enumerate(net.tensors) if t.data is not None and t.data.dtype == "f4"}
    tensors = {i for i in floats - weights if net.tensors[i].spec.shape}
    assert tensors <= held_constants(graph).keys() <= floats - weights


def test_a_grid_before_a_layer_trains() -> None:
    """A layer that follows can use any table, also one of numbers in order."""
    net, y, weights = detector(squashed=True, later=True)
    graph = hold_constants(net.graph(y))
    assert set(trainable_tensors(graph, range(len(graph.nodes)))) == weights


def test_a_name_trains_a_held_constant() -> None:
    net, y, _ = unrolled("rnn", np.zeros((1, U)))
    graph = hold_constants(net.graph(y))
    (start,) = [i for i, reason in held_constants(graph).items() if "initial state" in reason]
    assert trainable_tensors(graph, range(len(graph.nodes)), [start]) == (start,)


def test_what_trains_does_not_depend_on_trained_values() -> None:
    """The bias of zeros that two layers share is held, also when the file holds other values."""
    net, y, weights = bias_of_zeros("of two layers")

    def trained_with_other_values(graph: Graph) -> set[int]:
        moved = [t if t.data is None else replace(t, data=t.data + 1) for t in graph.tensors]
        held = hold_constants(replace(graph, tensors=tuple(moved)))
        return set(trainable_tensors(held, range(len(graph.nodes))))

    assert trained_with_other_values(hold_constants(net.graph(y))) == weights
    assert trained_with_other_values(net.graph(y)) > weights  # without marks, the bias trains


RNG = np.random.default_rng(0)


@pytest.mark.parametrize("axis", [0, 1])
def test_sinusoids_are_recognized_along_each_axis(axis: int) -> None:
    table = np.sin(np.arange(12)[:, None] * np.array([0.3, 0.7, 1.1]) + 0.2)
    table = table if axis == 0 else table.T
    assert is_sinusoidal(table)
    assert is_sinusoidal(table.astype(np.float16).astype(np.float32))
    assert not is_sinusoidal(table + RNG.normal(0, 0.02, table.shape))


def test_a_long_sinusoid_is_recognized_from_its_start_to_its_end() -> None:
    table = np.sin(np.arange(500)[:, None] * np.array([0.01, 0.7, 1.1]))
    assert is_sinusoidal(table)
    table[400] = -table[400]
    assert not is_sinusoidal(table)


def test_a_table_is_compared_with_sinusoids_without_a_copy() -> None:
    table = RNG.normal(size=(80_000, 4)).astype(np.float32)
    tracemalloc.start()
    try:
        assert not is_sinusoidal(table)
        assert tracemalloc.get_traced_memory()[1] < table.nbytes / 10
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "values",
    [
        RNG.normal(size=(12, 6)),
        np.zeros((12, 6)),
        np.ones((12, 6)),
        np.arange(72.0).reshape(12, 6),
        np.eye(8),
        np.outer(RNG.normal(size=12), RNG.normal(size=6)),
        np.zeros((0, 6)),
        np.zeros((8, 0)),
    ],
    ids=["normal", "zeros", "ones", "in order", "identity", "rank 1", "no rows", "no columns"],
)
def test_other_matrices_are_no_formulas(values: Array) -> None:
    assert not is_sinusoidal(values)
    assert not is_split_quadrature(values)
    assert not are_quadratures(values, values)


def test_cosines_and_sines_under_a_window_belong_together() -> None:
    window = np.hamming(32)
    cos, sin = np.cos(angles(17, 32)) * window, np.sin(angles(17, 32)) * window
    assert are_quadratures(cos, sin)
    assert is_split_quadrature(np.concatenate([cos, -sin]))
    assert is_split_quadrature(np.stack([cos, sin], 1).reshape(34, 32))
    assert not are_quadratures(cos, RNG.normal(size=cos.shape))


def test_a_filter_bank_has_bands_of_values_above_0() -> None:
    bank = mel(8, 17)
    assert is_filter_bank(bank)
    assert not is_filter_bank(-bank)
    assert not is_filter_bank(np.abs(RNG.normal(size=(8, 17))))
    assert not is_filter_bank(np.where(np.arange(17) % 3 == 0, 1.0, 0.0) * np.ones((8, 1)))


def test_a_mask_has_zeros_and_ones() -> None:
    assert is_mask(np.array([0.0, 1, 1]))
    assert not is_mask(np.ones(3))
    assert not is_mask(np.zeros(3))
    assert not is_mask(np.array([0.0, 1, 0.5]))
