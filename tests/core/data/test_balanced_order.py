"""Epochs with equally many samples of each class."""

import numpy as np

from odt.core.data.balanced_order import BalancedOrder

LABELS = np.array([0] * 30 + [1] * 4 + [5] * 2)
SAMPLES = np.arange(100, 136)


def test_classes_occur_equally_often() -> None:
    order = BalancedOrder(SAMPLES, LABELS, seed=3)
    drawn = [np.asarray(order.order(epoch)) for epoch in range(1, 60)]
    for numbers in drawn:
        labels = LABELS[numbers - 100]
        assert [np.count_nonzero(labels == k) for k in (0, 1, 5)] == [4, 4, 4]
        assert np.count_nonzero(numbers == 134) == 2, "both samples of class 5 are repeated"
    assert set(np.concatenate(drawn)) == set(SAMPLES), "all samples are drawn in time"
    assert drawn[0].tolist() != drawn[1].tolist()


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    one, other = (BalancedOrder(SAMPLES, LABELS, seed=3) for _ in range(2))
    assert list(one.order(2)) == list(other.order(2))
    assert list(one.order(2)) != list(BalancedOrder(SAMPLES, LABELS, seed=4).order(2))
