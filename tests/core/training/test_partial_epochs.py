"""What a trainer does with fewer samples than a batch, and with an epoch that a limit ends."""

import numpy as np
import pytest
from support.networks import ArrayData, InOrder, Net

from odt.core.model.training_info import TrainingInfo
from odt.core.training.trainer import Trainer
from odt.kernels.rows.schedules import ReduceOnPlateau

BATCH = 4


def trainer(schedule: ReduceOnPlateau | None = None) -> Trainer:
    net = Net()
    graph = net.graph(net.dense(net.input(1, 5), 3))
    info = TrainingInfo(loss="mean_squared_error", batch_size=BATCH, schedule=schedule)
    return Trainer(graph, info, monitor="loss" if schedule else "val_loss")


def data(samples: int) -> ArrayData:
    rng = np.random.default_rng(3)
    x, y = (rng.normal(size=(samples, n)).astype(np.float32) for n in (5, 3))
    return ArrayData([x], [y])


@pytest.mark.parametrize(("samples", "rest", "used"), [(3, False, 3), (7, False, 4), (7, True, 7)])
def test_samples_that_fill_no_batch_are_left_out_only_after_a_batch(
    samples: int, rest: bool, used: int
) -> None:
    source = data(samples)
    with trainer() as t:
        every = [t.evaluate(source, range(k, k + 1)).loss for k in range(used)]
        assert t.evaluate(source, range(samples), rest=rest).loss == pytest.approx(
            np.mean(every), rel=1e-6
        )


@pytest.mark.parametrize(("steps", "seen"), [(5, 2), (6, 3), (7, 3)])
def test_a_plateau_ignores_an_epoch_that_a_limit_ends(steps: int, seen: int) -> None:
    with trainer(ReduceOnPlateau()) as t:
        assert t.plateau is not None
        calls = []
        t.plateau.see = lambda logs, optimizer: calls.append(logs["loss"])  # type: ignore[method-assign]
        epochs = [*t.train(data(2 * BATCH), InOrder(2 * BATCH), epochs=9, max_steps=steps)]
        assert len(epochs) == -(-steps // 2)
        assert len(calls) == seen
