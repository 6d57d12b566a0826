"""A client's round: what it trains, what leaves it, and what it refuses."""

from typing import Any

import numpy as np
import pytest
from support.paths import MLP_SM

import odt
from odt import federated
from odt.federated.client import rate_factor, round_seed

MODEL = MLP_SM / "model.circle"
RNG = np.random.default_rng(1)
X = RNG.normal(size=(60, 784)).astype(np.float32)
Y = np.eye(10, dtype=np.float32)[RNG.integers(0, 10, 60)]


def trainer(**options: Any) -> odt.Trainer:
    return odt.Trainer(MODEL, **{"batch_size": 8, "metrics": ["accuracy"], **options})


def client(**options: Any) -> federated.Client:
    return federated.Client(trainer(), X, Y, **options)


def test_a_round_is_fit_with_the_seed_of_round_and_partition() -> None:
    update = client(epochs=2, partition=3, seed=5).train(client().tensors, round=4)
    with trainer() as alone:
        alone.fit(X, Y, epochs=2, seed=round_seed(5, 4, 3), fine_tune=False)
        assert update.tensors.keys() == alone.weights.keys()
        for name, a in update.tensors.items():
            np.testing.assert_array_equal(a, alone.weights[name])
    assert update.samples == 60
    assert set(update.metrics) == {"loss", "accuracy"}


def test_rounds_do_not_depend_on_what_the_trainer_did_before() -> None:
    first, second = client(partition=1), client(partition=2)
    usual = first.tensors
    begin = {name: 10 * a for name, a in usual.items()}  # after `fit`, these would be undone
    wanted = first.train(begin, 1)
    second.trainer.close()
    second.trainer = first.trainer
    second.train(begin, 1)
    federated.load_tensors(first.trainer, usual)
    first.trainer.fit(X, Y)
    again = first.train(begin, 1)
    for name, a in wanted.tensors.items():
        np.testing.assert_array_equal(a, again.tensors[name])
    assert any((a != begin[name]).any() for name, a in wanted.tensors.items())


def test_a_client_trains_its_own_samples() -> None:
    own = client(samples=np.arange(10, 30))
    whole = federated.Client(trainer(), X[10:30], Y[10:30])
    begin = own.tensors
    updates = [c.train(begin, 1) for c in (own, whole)]
    for name, a in updates[0].tensors.items():
        np.testing.assert_array_equal(a, updates[1].tensors[name])
    assert updates[0].samples == 20
    assert own.evaluate(begin) == whole.evaluate(begin)


def test_masks_of_dropout_follow_the_seed_of_the_round() -> None:
    """All samples are equal, so that their order makes no difference."""
    used = trainer(optimizer="sgd", learning_rate=0.1, dropout=0.5, batch_size=60)
    own = federated.Client(used, np.tile(X[:1], (60, 1)), np.tile(Y[:1], (60, 1)))
    begin = own.tensors
    first, again, other = (own.train(begin, number).tensors for number in (1, 1, 2))
    for name, a in first.items():
        np.testing.assert_array_equal(a, again[name])
    assert any(np.abs(a - other[name]).max() > 1e-3 for name, a in first.items())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_trained_values_that_are_not_finite_do_not_leave_the_client() -> None:
    used = trainer(optimizer="sgd", learning_rate=3e38, batch_size=60)
    own = federated.Client(used, X * 10, Y)
    with pytest.raises(odt.TrainingError, match=r"must be finite after training\. Lower the"):
        own.train(own.tensors, 1)


def test_only_trained_channels_travel() -> None:
    whole, head = client().tensors, federated.tensors_of(trainer(trainable=odt.last(2)))
    names = list(whole)
    assert list(head) == names[-2:]
    sparse = odt.Trainer(MODEL, batch_size=8, sparse={names[0]: 0.1})
    some = federated.tensors_of(sparse)
    rows = -(-len(whole[names[0]]) // 10)
    assert some[names[0]].shape == (rows, *whole[names[0]].shape[1:])
    federated.load_tensors(sparse, {name: a + 1 for name, a in some.items()})
    changed = sparse.weights[names[0]] - whole[names[0]]
    assert np.count_nonzero(changed.any(axis=1)) == rows
    np.testing.assert_array_equal(federated.tensors_of(sparse)[names[0]], some[names[0]] + 1)


def test_tensors_of_a_server_are_checked_before_they_are_used() -> None:
    participant = client()
    before = participant.tensors
    name = list(before)[-1]
    for bad, rule in (
        ({**before, name: before[name] * np.float32("nan")}, "must be finite, but got nan"),
        ({**before, name: before[name][1:]}, r"must be \(10,\) float32, but got \(9,\) float32"),
        ({**before, name: before[name].astype(np.float64)}, "but got .* float64"),
        ({**before, name: [0.0] * 10}, "must be an array, but got list"),
        ({k: a for k, a in before.items() if k != name}, "it is missing"),
        ({**before, "other": before[name]}, "must have no tensor other"),
    ):
        with pytest.raises(odt.DataError, match=f"server.*{rule}.* The model is unchanged"):
            participant.train(bad, 1)  # type: ignore[arg-type]
    for key, a in participant.tensors.items():
        np.testing.assert_array_equal(a, before[key])


def test_the_rate_falls_along_half_a_cosine_over_the_rounds() -> None:
    wanted = [1, (2 + 2**0.5) / 4, 0.5, (2 - 2**0.5) / 4, (2 - 2**0.5) / 4]
    assert [rate_factor(t, 4) for t in range(1, 6)] == pytest.approx(wanted, rel=1e-12)
    assert rate_factor(3, None) == 1


@pytest.mark.parametrize("samples", [[], [0, -1], [0, len(X)]])
def test_samples_outside_of_the_data_are_refused(samples: list[int]) -> None:
    with pytest.raises(odt.OptionError, match=f"one or more numbers from 0 to {len(X) - 1}"):
        client(samples=samples)
