"""Normalizations and softmax."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from odt.core.lowering.graph_builder import inverse
from odt.core.lowering.normalize.batch_statistics import BATCH_NORM
from odt.core.lowering.onnx.builder import INT64, Use
from odt.errors import ShapeError

STATISTICS = "running statistics of batch normalization"
FLATTENING = 13  # before this opset, softmax covers all axes from `axis` on


def batch_normalization(u: Use) -> int:
    """Normalizes channels with the statistics of the file, which stay: (x − μ) s + β.

    s is γ / √(σ² + ε), computed from γ in each step, so that γ and β train. It is one node if steps
    of training may normalize with statistics of their batches.
    """
    if u.attr("training_mode", 0) and not u.b.batch_statistics:
        raise ShapeError(
            "training_mode must be 0, so that a sample's result is its own, but got 1. Export the "
            'model in evaluation mode, or train it with `batch_norm="batch"`'
        )
    if not u.attr("spatial", 1):
        raise ShapeError("spatial must be 1, but got 0")
    if u.b.batch_statistics:
        return _with_statistics(u)
    scale = u.b.add("MUL", (u.input(1), _inverse_deviation(u)))
    mean = u.input(3)
    u.b.hold(mean, STATISTICS)
    moved = u.b.add("MUL", (scale, mean))
    shift = u.b.add("SUB", (u.input(2), moved))
    y = u.b.add("ADD", (u.b.add("MUL", (_channels_last(u), scale)), shift))
    return _channels_first(u, y)


def _with_statistics(u: Use) -> int:
    """Normalizes channels with the running statistics, or with those of a batch."""
    for k in (3, 4):
        if u.b.tensors[u.input(k)].data is None:
            raise ShapeError("the running statistics must be constants, but got others")
        u.b.hold(u.input(k), STATISTICS)
    inputs = (_channels_last(u), *(u.input(k) for k in range(1, 5)))
    epsilon, momentum = float(u.attr("epsilon", 1e-5)), float(u.attr("momentum", 0.9))
    y = u.b.add(BATCH_NORM, inputs, epsilon=epsilon, momentum=momentum)
    return _channels_first(u, y)


def _channels_last(u: Use) -> int:
    """Returns input 0 with the channels as its last axis."""
    rank = u.rank(0)
    return u.b.transpose(u.input(0), (0, *range(2, rank), 1)) if rank > 2 else u.input(0)


def _channels_first(u: Use, y: int) -> int:
    rank = u.rank(0)
    return u.b.transpose(y, (0, rank - 1, *range(1, rank - 1))) if rank > 2 else y


def _inverse_deviation(u: Use) -> int:
    """Returns 1 / √(σ² + ε), a constant if the variance is one."""
    variance = u.input(4)
    epsilon = float(u.attr("epsilon", 1e-5))
    u.b.hold(variance, STATISTICS)
    values = u.b.value(variance)
    if values is None:
        return u.b.add("RSQRT", (u.b.add("ADD", (variance, u.b.constant(epsilon, u.dtype(4)))),))
    if (values.astype(np.float64) + epsilon <= 0).any():
        raise ShapeError("the variance must be above 0, but got other values")
    return u.b.constant(1 / np.sqrt(values.astype(np.float64) + epsilon), u.dtype(0))


def layer_normalization(u: Use) -> list[int]:
    """Normalizes all axes from `axis` on, and applies a scale and a bias to each value."""
    shape = u.shape(0)
    axis = u.axis(int(u.attr("axis", -1)), len(shape))
    count = math.prod(shape[axis:])
    x = u.b.reshape(u.input(0), (*shape[:axis], count))
    mean = u.b.add("MEAN", (x, u.b.constant([axis])), keep_dims=True)
    centered = u.b.add("SUB", (x, mean))
    results = [_rms(u, centered, count)]
    if u.is_read(1) or u.is_read(2):
        square = u.b.add("SQUARE", (centered,))
        variance = u.b.add("MEAN", (square, u.b.constant([axis])), keep_dims=True)
        epsilon = u.b.constant(float(u.attr("epsilon", 1e-5)), u.dtype(0))
        inverse = u.b.add("RSQRT", (u.b.add("ADD", (variance, epsilon)),))
        dims = (*shape[:axis], *[1] * (len(shape) - axis))
        results += [u.b.reshape(x, dims) for x in (mean, inverse)]
    return results


def rms_normalization(u: Use) -> int:
    shape = u.shape(0)
    axis = u.axis(int(u.attr("axis", -1)), len(shape))
    count = math.prod(shape[axis:])
    return _rms(u, u.b.reshape(u.input(0), (*shape[:axis], count)), count)


def _rms(u: Use, x: int, count: int) -> int:
    """Divides x (…, count) by its root mean square along the last axis, and applies the weights."""
    gamma, beta = (
        u.b.weight(u.node.inputs[k], range(u.rank(k)), (count,)) if u.has(k) else None
        for k in (1, 2)
    )
    if gamma is None:
        gamma = u.b.constant(np.ones(count), u.dtype(0))
    y = u.b.add("RMS_NORM", (x, gamma), epsilon=float(u.attr("epsilon", 1e-5)))
    if beta is not None:
        y = u.b.add("ADD", (y, beta))
    return u.b.reshape(y, u.shape(0))


def instance_normalization(u: Use) -> int:
    """Normalizes each channel of each sample."""
    return _instance(u, u.input(0), u.input(1), u.input(2))


def _instance(u: Use, x: int, gamma: int, beta: int) -> int:
    if len(u.b.shape(x)) < 2:
        raise ShapeError(f"x must be (N, C, …), but got {u.b.shape(x)}")
    n, c, *sizes = u.b.shape(x)
    images = u.b.transpose(u.b.reshape(x, (n, c, math.prod(sizes))), (0, 2, 1))
    images = u.b.reshape(images, (n, 1, math.prod(sizes), c))
    epsilon = float(u.attr("epsilon", 1e-5))
    y = u.b.add("INSTANCE_NORM", (images, gamma, beta), epsilon=epsilon)
    y = u.b.reshape(y, (n, math.prod(sizes), c))
    return u.b.reshape(u.b.transpose(y, (0, 2, 1)), (n, c, *sizes))


def group_normalization(u: Use) -> int:
    """Normalizes groups of channels; up to opset 20 they share a scale and a bias."""
    shape = u.shape(0)
    groups = int(u.attr("num_groups", 0))
    if len(shape) < 3 or groups < 1 or shape[1] % groups:
        raise ShapeError(f"x must have a multiple of {groups} channels, but got {shape}")
    x = u.b.reshape(u.input(0), (shape[0], groups, shape[1] // groups * math.prod(shape[2:])))
    ones, zeros = (u.b.constant(np.full(groups, n), u.dtype(0)) for n in (1, 0))
    y = _instance(u, x, ones, zeros)
    rest = (1,) * (len(shape) - 2)
    if u.opset < 21:
        y = u.b.reshape(y, (shape[0], groups, shape[1] // groups, *shape[2:]))
        dims: tuple[int, ...] = (groups, 1, *rest)
    else:
        y = u.b.reshape(y, shape)
        dims = (shape[1], *rest)
    scale, bias = (u.b.weight(u.node.inputs[k], (0,), dims) for k in (1, 2))
    y = u.b.add("ADD", (u.b.add("MUL", (y, scale)), bias))
    return u.b.reshape(y, shape)


def softmax(op: str, u: Use) -> int:
    """SOFTMAX or LOG_SOFTMAX along an axis, or, up to opset 12, over all axes from it on."""
    shape = u.shape(0)
    flattens = u.opset < FLATTENING
    axis = int(u.attr("axis", 1 if flattens else -1))
    rank = len(shape)
    axis = axis % rank if -rank <= axis < rank else axis
    if not 0 <= axis < max(rank, 1):
        raise ShapeError(f"axis must be one of {rank}, but got {axis}")
    x = u.input(0)
    if axis == rank - 1:
        return _softmax(u, op, x)
    if flattens:
        x = u.b.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))
        return u.b.reshape(_softmax(u, op, x), shape)
    order = [k for k in range(rank) if k != axis] + [axis]
    y = _softmax(u, op, u.b.transpose(x, order))
    return u.b.transpose(y, inverse(order))


def _softmax(u: Use, op: str, x: int) -> int:
    options: dict[str, Any] = {"beta": 1.0} if op == "SOFTMAX" else {}
    return u.b.add(op, (x,), **options)


def hardmax(u: Use) -> int:
    """1 at the first largest value along an axis, else 0; up to opset 12 of all axes from it on."""
    shape = u.shape(0)
    flattens = u.opset < FLATTENING
    axis = u.axis(int(u.attr("axis", 1 if flattens else -1)), len(shape))
    x = u.input(0)
    if flattens:
        x = u.b.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))
        axis = 1
    best = u.b.add("ARG_MAX", (x, u.b.constant(axis)), INT64)
    ends = (u.b.constant(n, u.dtype(0)) for n in (1, 0))
    size = u.b.constant(u.b.shape(x)[axis])
    return u.b.reshape(u.b.add("ONE_HOT", (best, size, *ends), u.dtype(0), axis=axis), shape)


def lp_normalization(u: Use) -> int:
    """x / (Σ |x|ᵖ)^(1/p) along an axis; 0 where all values are 0."""
    x = u.input(0)
    p = int(u.attr("p", 2))
    axis = u.axis(int(u.attr("axis", -1)), u.rank(0))
    if p not in (1, 2):
        raise ShapeError(f"p must be 1 or 2, but got {p}")
    powers = u.b.add("ABS" if p == 1 else "SQUARE", (x,))
    norm = u.b.add("SUM", (powers, u.b.constant([axis])), keep_dims=True)
    norm = norm if p == 1 else u.b.add("SQRT", (norm,))
    zero, one = (u.b.constant(n, u.dtype(0)) for n in (0, 1))
    norm = u.b.add("SELECT_V2", (u.b.add("EQUAL", (norm, zero)), one, norm))
    return u.b.add("DIV", (x, norm))


def mean_variance_normalization(u: Use) -> int:
    """(x − mean) / (√variance + 10⁻⁹) over some axes."""
    axes = tuple(sorted({u.axis(k, u.rank(0)) for k in u.ints("axes", (0, 2, 3)) or ()}))
    x = u.input(0)
    over = u.b.constant(axes)
    centered = u.b.add("SUB", (x, u.b.add("MEAN", (x, over), keep_dims=True)))
    variance = u.b.add("MEAN", (u.b.add("SQUARE", (centered,)), over), keep_dims=True)
    tiny = u.b.constant(1e-9, u.dtype(0))
    spread = u.b.add("ADD", (u.b.add("SQRT", (variance,)), tiny))
    return u.b.add("DIV", (centered, spread))


def lrn(u: Use) -> int:
    """x / (k + α/n · the sum of squares of n neighboring channels)^β."""
    size = int(u.attr("size", 0))
    rank = u.rank(0)
    if rank < 3 or size < 1 or size % 2 == 0:
        raise ShapeError(f"size must be odd and x have channels, but got {size}, {u.shape(0)}")
    x = u.b.transpose(u.input(0), (0, *range(2, rank), 1))
    y = u.b.add(
        "LOCAL_RESPONSE_NORMALIZATION",
        (x,),
        radius=size // 2,
        bias=float(u.attr("bias", 1.0)),
        alpha=float(u.attr("alpha", 1e-4)) / size,
        beta=float(u.attr("beta", 0.75)),
    )
    return u.b.transpose(y, (0, rank - 1, *range(1, rank - 1)))


KINDS: Mapping[str, Callable[[Use], int | Sequence[int]]] = {
    "BatchNormalization": batch_normalization,
    "LayerNormalization": layer_normalization,
    "RMSNormalization": rms_normalization,
    "InstanceNormalization": instance_normalization,
    "GroupNormalization": group_normalization,
    "Softmax": partial(softmax, "SOFTMAX"),
    "LogSoftmax": partial(softmax, "LOG_SOFTMAX"),
    "LRN": lrn,
    "Hardmax": hardmax,
    "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": mean_variance_normalization,
}
