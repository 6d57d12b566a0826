"""A small network with a branch and a tied weight, and random data for it."""

import numpy as np

from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.kernels.rows.opdef import Array
from support.networks import ArrayData, Net

RELU = 1


def network(dtype: type = np.float32) -> Graph:
    """Makes a network with a branch, a tied weight, a tensor used twice and a view."""
    net = Net(dtype)
    x = net.dense(net.input(1, 12), 16, fused_activation_function=RELU)
    w = net.weight(16, 16)
    a = net.add("FULLY_CONNECTED", (x, w), (1, 16))
    b = net.add("FULLY_CONNECTED", (net.add("ADD", (a, a), (1, 16)), w), (1, 16))
    y = net.add("ADD", (b, x), (1, 16))
    return net.graph(net.add("RESHAPE", (y, net.constant([1, 4, 4], np.int32)), (1, 4, 4)))


def data(samples: int, dtype: type = np.float32, seed: int = 1) -> ArrayData:
    rng = np.random.default_rng(seed)
    x: Array = rng.normal(size=(samples, 12)).astype(dtype)
    return ArrayData([x], [rng.normal(size=(samples, 4, 4)).astype(dtype)])


def info(batch: int, **more: object) -> TrainingInfo:
    return TrainingInfo(loss="mean_squared_error", batch_size=batch, **more)  # type: ignore[arg-type]
