"""Short micro-batches of several workers, which threads of the library compute."""

import numpy as np
import pytest
from support.tied_network import data, info, network

from odt.core.data.protocol import Scales, Weights
from odt.core.planning.step_mode import Loop
from odt.core.training.metrics import Metrics
from odt.core.training.trainer import Trainer
from odt.errors import TrainingError
from odt.kernels.native.library import is_available
from odt.kernels.rows.opdef import Array


class Above:
    """Counts the outputs above their targets."""

    by_row = False

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
    """For a whole batch and its rest, which one worker may have alone, with and without metrics.

    Also if the inputs of a whole batch are too large to be held.
    """
    found = []
    for loop, most in ((Loop.THREADS, 0), (Loop.SIDE_BY_SIDE, 0), (Loop.WHOLE_BATCH, 2**20)):
        short = loop is not Loop.THREADS
        monkeypatch.setattr("odt.core.planning.step_mode.is_short", lambda plan, short=short: short)
        monkeypatch.setattr("odt.core.planning.step_mode.MAX_BATCH_BYTES", most)
        with Trainer(
            network(np.float32), info(16), micro_batch=4, workers=workers, metrics=metrics
        ) as trainer:
            assert trainer._training.plans.mode.loop is loop
            results = [trainer.batch(data(16), n, update=True) for n in (samples, 16, samples)]
            results.append(trainer.batch(data(16), samples, update=False))
            weights = {i: a.copy() for i, a in trainer.parameters.tensors.items()}
            found.append(([(r.loss, r.metrics) for r in results], weights))
    for others, same in found[1:]:
        assert found[0][0] == others
        assert all(a.tobytes() == same[i].tobytes() for i, a in found[0][1].items())


@pytest.mark.skipif(not is_available(), reason="no compiled kernels")
@pytest.mark.parametrize("weighted", [False, True])
def test_batches_held_as_a_whole(monkeypatch: pytest.MonkeyPatch, *, weighted: bool) -> None:
    """Samples with weights, accumulated gradients, and no update by a loss that is not finite."""
    found = []
    for most in (0, 2**20):
        monkeypatch.setattr("odt.core.planning.step_mode.is_short", lambda plan: True)
        monkeypatch.setattr("odt.core.planning.step_mode.MAX_BATCH_BYTES", most)
        samples, bad = data(16), data(16)
        bad.inputs[0][13, 0] = np.nan
        if weighted:
            samples.weights = bad.weights = Weights(np.linspace(0, 2, 16, dtype=np.float32))
        options = {"micro_batch": 4, "workers": 2, "scales": Scales(weighted)}
        with Trainer(network(np.float32), info(16), **options) as trainer:  # type: ignore[arg-type]
            for _ in range(3):
                losses = [trainer.step(samples, n) for n in (16, 7)]
                before = {i: a.copy() for i, a in trainer.parameters.tensors.items()}
                with pytest.raises(TrainingError, match="must be finite"):
                    trainer.step(bad, 16)
                assert all(np.array_equal(a, before[i]) for i, a in trainer.weights().items())
                losses += [trainer.accumulate(samples, n) for n in (16, 16, 9)]
                trainer.apply_gradients()
            found.append((losses, trainer.weights()))
    (expected, weights), (others, same) = found
    assert expected == others
    assert all(a.tobytes() == same[i].tobytes() for i, a in weights.items())
