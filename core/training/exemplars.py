"""Stored features of one class: which samples are kept, and how they are stored.

A feature vector x is stored as int8 with a scale of its own: s = max|x| / 127, q = round(x / s).
The restored vector s·q differs from x by at most s / 2 in each value.

Two ways choose the samples to keep:

- reservoir: every sample that was ever seen is chosen with the same probability. Source: Vitter,
  Random Sampling with a Reservoir (1985), algorithm R.
- herding: the k-th sample kept is the one that brings the mean of the first k closest to the mean μ
  of all samples seen: argmin over x of ‖μ − (x + Σ of the k − 1 before it) / k‖. Source: Rebuffi et
  al., iCaRL: Incremental Classifier and Representation Learning (2017), algorithm 4.

In both orders any first part is a valid choice of fewer samples.
"""

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array

LARGEST = 127  # of an int8 value
MAX_FEATURE = 1e18  # magnitude of a feature: its square is finite in float32


def quantize(features: Array) -> tuple[Array, Array]:
    """Returns int8 values (N, F) and float32 scales (N,) of feature vectors (N, F)."""
    scales = (np.abs(features).max(axis=1) / LARGEST).astype(np.float32)
    divisors = np.where(scales > 0, scales, 1)[:, None]
    return np.rint(features / divisors).astype(np.int8), scales


@dataclass(frozen=True, slots=True)
class Exemplars:
    """Stored features of one class.

    Attributes:
        name: name of the class.
        seen: number of samples that were offered so far.
        mean: mean of their features (F,), float32.
        values: stored features (n, F), int8, in the order of the choice.
        scales: scales of the stored features (n,), float32.
    """

    name: str
    seen: int
    mean: Array
    values: Array
    scales: Array

    @classmethod
    def empty(cls, name: str, width: int) -> "Exemplars":
        """A class without samples."""
        none = np.empty((0, width), np.int8)
        return cls(name, 0, np.zeros(width, np.float32), none, np.empty(0, np.float32))

    @property
    def features(self) -> Array:
        """The restored features (n, F), float32."""
        return self.values * self.scales[:, None]

    @property
    def centered(self) -> Array:
        """The restored features, moved so that their mean is that of all samples ever seen."""
        features = self.features
        return features + (self.mean - features.mean(axis=0)) if len(features) else features

    def __len__(self) -> int:
        return len(self.values)

    def first(self, count: int) -> "Exemplars":
        """Returns the class with at most `count` stored samples."""
        values, scales = self.values[:count].copy(), self.scales[:count].copy()
        return Exemplars(self.name, self.seen, self.mean, values, scales)

    def with_samples(
        self, features: Array, count: int, sampling: str, rng: np.random.Generator
    ) -> "Exemplars":
        """Returns the class after more samples were offered, of which some are stored.

        Args:
            features: features of the new samples (N, F), float32.
            count: number of samples to store at most.
            sampling: reservoir or herding.
            rng: random generator of the reservoir.
        """
        if not len(features):
            return self
        seen = self.seen + len(features)
        mean = (self.mean * self.seen + features.sum(axis=0, dtype=np.float64)) / seen
        new, scales = quantize(features)
        values, scales = np.concatenate([self.values, new]), np.concatenate([self.scales, scales])
        if sampling == "herding":
            choice = herding(values * scales[:, None], mean, count)
        else:
            choice = reservoir(len(self), self.seen, len(features), count, rng)
        return Exemplars(self.name, seen, mean.astype(np.float32), values[choice], scales[choice])


def herding(features: Array, mean: Array, count: int) -> Array:
    """Chooses samples whose mean is close to a given mean; returns their numbers in order.

    Args:
        features: feature vectors (N, F).
        mean: the mean to approximate (F,).
        count: number of samples to choose, at most N.
    """
    numbers: list[int] = []
    total = np.zeros(len(mean))
    free = np.ones(len(features), np.bool_)
    for k in range(1, min(count, len(features)) + 1):
        distances = np.square(mean - (total + features) / k).sum(axis=1)
        best = int(np.where(free, distances, np.inf).argmin())
        numbers.append(best)
        free[best] = False
        total += features[best]
    return np.array(numbers, np.intp)


def reservoir(stored: int, seen: int, new: int, count: int, rng: np.random.Generator) -> Array:
    """Chooses samples so that each one ever seen is chosen with the same probability.

    Free places are filled first. After `count` grew, later samples are more likely.

    Args:
        stored: number of samples stored so far; candidates 0 … stored − 1.
        seen: number of samples seen so far.
        new: number of new samples; candidates from `stored` on.
        count: number of samples to keep.
        rng: random generator.

    Returns:
        Numbers of the chosen samples, in random order.
    """
    numbers = list(range(stored))[:count]
    for k in range(new):
        if len(numbers) < count:
            numbers.append(stored + k)
        elif (place := int(rng.integers(seen + k + 1))) < len(numbers):
            numbers[place] = stored + k
    return rng.permutation(np.array(numbers, np.intp))
