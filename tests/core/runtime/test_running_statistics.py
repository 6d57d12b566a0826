"""Running statistics of batch normalization move towards those of each batch."""

import numpy as np
import pytest

from odt.core.lowering.normalize.batch_statistics import RunningStatistics
from odt.core.model.graph import Graph, Tensor
from odt.core.runtime.running_statistics import Statistics
from odt.kernels.rows.opdef import TensorSpec

MOMENTUM, EPSILON = 0.9, 1e-5


@pytest.mark.parametrize("kernels", ["", "numpy"])
@pytest.mark.parametrize("channels", [1, 7, 40])
def test_statistics_move_by_the_share_of_the_batch(
    kernels: str, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODT_KERNELS", kernels)
    rng = np.random.default_rng(channels)
    mean, variance = rng.normal(size=channels), rng.random(channels)
    spec = TensorSpec((channels,), np.dtype(np.float32))
    tensors = [
        Tensor(name, spec, data=values.astype(np.float32))
        for name, values in (("mean", mean), ("variance", variance))
    ]
    running = RunningStatistics(0, 1, MOMENTUM, EPSILON, "", "")
    statistics = Statistics(Graph(tuple(tensors), (), (), ()), [running])
    x = rng.normal(2, 3, (50, channels))
    x[:, 0] = 4  # a channel without variance
    center, of_batch = x.mean(axis=0), x.var(axis=0)
    inv = 1 / np.sqrt(of_batch + EPSILON)
    arrays = [a.astype(np.float32).reshape(1, 1, -1) for a in (center, inv)]
    run = statistics.bind(running, *arrays)
    for _ in range(2):
        run()
        mean = MOMENTUM * mean + (1 - MOMENTUM) * center
        variance = MOMENTUM * variance + (1 - MOMENTUM) * of_batch
    np.testing.assert_allclose(statistics.arrays[0], mean, rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(statistics.arrays[1], variance, rtol=2e-6, atol=1e-6)
