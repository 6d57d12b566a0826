"""The order of an epoch with equally many samples of each class."""

import numpy as np

from odt.core.data.protocol import SampleOrder
from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array


@dataclass(frozen=True, slots=True)
class BalancedOrder:
    """An order of samples, shuffled anew in each epoch, in which all classes occur equally often.

    Each class has the median of the numbers of samples of the classes. Of a class with more
    samples, each epoch draws some; those of a class with fewer are repeated.

    Attributes:
        samples: numbers of the training samples.
        labels: class of each of them.
        seed: random seed, 0 or more.
    """

    samples: Array
    labels: Array
    seed: int = 0

    def order(self, epoch: int) -> SampleOrder:
        """Numbers of the samples of an epoch, in order."""
        rng = np.random.default_rng((self.seed, epoch))
        classes = [self.samples[self.labels == k] for k in np.unique(self.labels)]
        count = int(np.median([len(numbers) for numbers in classes]))
        samples = [np.resize(rng.permutation(numbers), count) for numbers in classes]
        return rng.permutation(np.concatenate(samples))  # type: ignore[return-value]  # an array does
