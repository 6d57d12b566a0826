"""The order of an epoch with equally many samples of each class."""

import numpy as np

from odt.core.data.protocol import SampleOrder
from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array


@dataclass(frozen=True, slots=True)
class BalancedOrder:
    """An order of samples, shuffled anew in each epoch, in which all classes occur equally often.

    An epoch has the same number of samples of each class, which is the median of the sizes of the
    classes, rounded down. It draws them anew from a larger class, and repeats those of a smaller
    one.

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
        order = rng.permutation(np.concatenate(samples))
        return order  # type: ignore[return-value]  # an array is read like a Sequence
