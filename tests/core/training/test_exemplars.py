"""Which samples of a class are stored, and how exactly."""

import numpy as np
import pytest

from odt.core.training.exemplars import Exemplars, herding, quantize, reservoir

RNG = np.random.default_rng(0)


def test_restored_features_differ_by_at_most_half_a_scale() -> None:
    features = RNG.normal(size=(50, 7)).astype(np.float32) * 10 ** RNG.uniform(-3, 3, (50, 1))
    features[3] = 0
    values, scales = quantize(features.astype(np.float32))
    np.testing.assert_allclose(scales, abs(features).max(axis=1) / 127, rtol=1e-6)
    error = abs(values * scales[:, None].astype(float) - features)
    assert (error <= scales[:, None] * 0.50001).all()
    assert abs(values[[k for k in range(50) if k != 3]]).max(axis=1).tolist() == [127] * 49
    assert not values[3].any()


def test_herding_is_the_greedy_choice_of_icarl() -> None:
    features = RNG.normal(size=(12, 3))
    mean = features.mean(axis=0)
    expected: list[int] = []
    for _ in range(5):  # the definition, one candidate at a time
        rest = [k for k in range(12) if k not in expected]
        expected.append(
            min(rest, key=lambda k: float(np.linalg.norm(mean - features[[*expected, k]].mean(0))))
        )
    assert herding(features, mean, 5).tolist() == expected
    assert sorted(herding(features, mean, 99)) == list(range(12))


def test_reservoir_keeps_each_sample_with_the_same_probability() -> None:
    counts, rounds = np.zeros(12), 4000
    rng = np.random.default_rng(1)
    for _ in range(rounds):
        names, seen = np.empty(0, int), 0
        for new in (2, 5, 5):  # offered in three parts; 3 are kept
            candidates = np.concatenate([names, np.arange(seen, seen + new)])
            names = candidates[reservoir(len(names), seen, new, 3, rng)]
            seen += new
        counts[names] += 1
    # each is kept with probability 1/4; five standard deviations of a binomial distribution
    assert abs(counts - rounds / 4).max() < 5 * np.sqrt(rounds * 3 / 16)


@pytest.mark.parametrize("sampling", ["reservoir", "herding"])
def test_the_mean_is_that_of_all_samples_ever_seen(sampling: str) -> None:
    features = RNG.normal(2, 1, size=(30, 4)).astype(np.float32)
    kept = Exemplars.empty("a", 4)
    for part in (features[:3], features[3:3], features[3:20], features[20:]):
        kept = kept.with_samples(part, 5, sampling, np.random.default_rng(0))
    assert (len(kept), kept.seen) == (5, 30)
    np.testing.assert_allclose(kept.mean, features.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(kept.centered.mean(axis=0), features.mean(axis=0), rtol=1e-5)
    distances = np.linalg.norm(features[:, None] - kept.features, axis=2).min(axis=0)
    assert (distances < 2 * kept.scales).all(), "they are samples that were offered"
    assert kept.first(2).values.tolist() == kept.values[:2].tolist()
