"""Short micro-batches of several workers, which threads of the library compute."""

import numpy as np
import pytest
from support.tied_network import data, info, network

from odt.core.training.metrics import Metrics
from odt.core.training.trainer import Trainer
from odt.kernels.native.library import is_available
from odt.kernels.opdef import Array


class Above:
    """Counts the outputs above their targets."""

    def __init__(self) -> None:
        self.count = 0

    def update(self, outputs: Array, targets: Array) -> None:
        self.count += int((outputs > targets).sum())

    def value(self) -> float:
        return self.count


@pytest.mark.skipif(not is_available(), reason="no compiled kernels")
@pytest.mark.parametrize(("samples", "workers"), [(16, 2), (16, 3), (15, 2), (3, 2)])
@pytest.mark.parametrize("metrics", [{}, {"above": Above}])
def test_threads_of_the_library_give_the_bits_of_those_of_python(
    monkeypatch: pytest.MonkeyPatch, samples: int, workers: int, metrics: Metrics
) -> None:
    """For a whole batch and its rest, which one worker may have alone, with and without metrics."""
    found = []
    for short in (False, True):
        monkeypatch.setattr("odt.core.runtime.engine.is_short", lambda plan, short=short: short)
        with Trainer(
            network(np.float32), info(16), micro_batch=4, workers=workers, metrics=metrics
        ) as trainer:
            assert trainer._training._short == short
            results = [trainer.batch(data(16), n, update=True) for n in (samples, 16, samples)]
            results.append(trainer.batch(data(16), samples, update=False))
            weights = {i: a.copy() for i, a in trainer.parameters.tensors.items()}
            found.append(([(r.loss, r.metrics) for r in results], weights))
    (expected, weights), (others, same) = found
    assert expected == others
    assert all(a.tobytes() == same[i].tobytes() for i, a in weights.items())
